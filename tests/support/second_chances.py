"""A plugin of pytest: a test on real processes whose wait ran out of time is run once more.

The machine may be busy with something else, and then a real process is late. So one reason to fail
is not believed at first: a wait that ended without anything having come (`ran_out_of_time`). A
wrong value, an error, a failed teardown are believed at once: such a test is never run again.

- Before the second run everything is torn down, fixtures of the module and the session included:
  it begins as the first did.
- The first failure is kept as a report of its own: its traceback, what was captured, and the ends
  of the nodes' logs are shown at the end of the run, whatever became of the second run.
- More than `MOST` tests that needed it make the run red though all of them passed: then it is not
  the machine any more. With xdist the workers run the tests and the controller counts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import call_and_report
from tests.support.eventually import RanOutOfTime
from tests.support.node_process import logs_of_nodes

from tidelog.cli.node_process import NodeSilent

MOST = 3
"""So many tests of one run may need a second chance."""

LATE = "late"
"""The outcome of a first run that is not believed."""

_OURS = (RanOutOfTime, NodeSilent, TimeoutError, subprocess.TimeoutExpired)
_LIBRARIES = {
    "kafka.errors": ("KafkaTimeoutError", "RequestTimedOutError"),
    "aiokafka.errors": ("KafkaTimeoutError", "RequestTimedOutError"),
}
_LIBRDKAFKA = ("_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT")


def ran_out_of_time(error: BaseException) -> bool:
    """A wait of ours, of a client library or of the standard library ended with nothing."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(ran_out_of_time, error.exceptions))
    if isinstance(error, _OURS):
        return True
    for module, names in _LIBRARIES.items():
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(error, tuple(getattr(loaded, name) for name in names)):
            return True
    return _is_of_librdkafka(error)


def _is_of_librdkafka(error: BaseException) -> bool:
    library = sys.modules.get("confluent_kafka")
    if library is None or not isinstance(error, library.KafkaException) or not error.args:
        return False
    reason = error.args[0]
    return isinstance(reason, library.KafkaError) and reason.name() in _LIBRDKAFKA


class SecondChances:
    """One run's. In a worker of xdist it runs tests, in the controller it counts."""

    def __init__(self, config: pytest.Config, rooms: list[Path]) -> None:
        """`rooms`: the folders of tests that get second chances."""
        self._config = config
        self._rooms = rooms
        self._first_failures: list[pytest.TestReport] = []

    # --- running ------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> object:
        if not self._is_on_processes(item):
            return None  # somebody else runs it, once
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = _run(item, nextitem, may_repeat=True)
        if any(report.outcome == LATE for report in reports):
            for report in reports:
                if report.outcome == LATE:
                    hook.pytest_runtest_logreport(report=report)
            reports = _run(item, nextitem, may_repeat=False)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _is_on_processes(self, item: pytest.Item) -> bool:
        return any(item.path.is_relative_to(room) for room in self._rooms)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and call.excinfo is not None:
            if logs := logs_of_nodes():
                report.sections.append(("Logs of the nodes", logs))
            report.ran_out_of_time = ran_out_of_time(  # type: ignore[attr-defined]
                call.excinfo.value
            )
        return report

    # --- counting and telling -------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == LATE:
            self._first_failures.append(report)

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        if report.outcome == LATE:
            return LATE, "L", "LATE"
        return None

    @property
    def _names(self) -> list[str]:
        return sorted({report.nodeid for report in self._first_failures})

    @property
    def _are_too_many(self) -> bool:
        return len(self._names) > MOST

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        is_worker = hasattr(self._config, "workerinput")
        if self._are_too_many and not is_worker and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._names:
            return
        terminal = terminalreporter
        terminal.section("second chances: what failed at first")
        for report in self._first_failures:
            terminal.write_sep("_", f"{report.nodeid} ({report.when})", yellow=True)
            report.toterminal(terminal._tw)
            for title, text in report.sections:
                terminal.write_sep("-", title)
                terminal.write_line(text)
        terminal.section("second chances")
        for name in self._names:
            terminal.write_line(f"a wait ran out of time, run again: {name}")
        if self._are_too_many:
            terminal.write_line(
                f"{len(self._names)} tests needed a second chance, and {MOST} may: this run is red,"
                " even if all of them passed then. Look at what failed at first, above.",
                red=True,
                bold=True,
            )


def _run(
    item: pytest.Item, nextitem: pytest.Item | None, *, may_repeat: bool
) -> list[pytest.TestReport]:
    """Setup, call and teardown. Failures that are not believed have their outcome changed, and
    then everything was torn down."""
    if not item._request:  # type: ignore[attr-defined]
        item._initrequest()  # type: ignore[attr-defined]
    reports = [call_and_report(item, "setup", log=False)]
    if reports[0].passed:
        reports.append(call_and_report(item, "call", log=False))
    is_late = may_repeat and _are_all_late(reports)
    is_last = is_late or item.session.shouldfail or item.session.shouldstop
    reports.append(
        call_and_report(item, "teardown", log=False, nextitem=None if is_last else nextitem)
    )
    item._request = False  # type: ignore[attr-defined]
    item.funcargs = None  # type: ignore[attr-defined]
    if is_late and _are_all_late(reports):
        for report in reports:
            if report.failed:
                report.outcome = LATE  # type: ignore[assignment]
    return reports


def _are_all_late(reports: list[pytest.TestReport]) -> bool:
    failed = [report for report in reports if report.failed]
    return bool(failed) and all(getattr(report, "ran_out_of_time", False) for report in failed)

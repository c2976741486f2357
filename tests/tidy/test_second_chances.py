"""Which failure is run again, and what the run says of it, in projects of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.second_chances import LATE

pytest_plugins = ["pytester"]

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project that has the plugin, and the tools that waits of real tests use."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", f"{_ROOT / 'src'}:{_ROOT}")
    pytester.makeconftest(
        """
        from pathlib import Path

        from tests.support.second_chances import SecondChances

        def pytest_configure(config):
            rooms = [Path(__file__).parent]
            config.pluginmanager.register(SecondChances(config, rooms), "second-chances")
        """
    )
    pytester.makepyfile(
        first_times="""
        from pathlib import Path

        def is_first(name):
            seen = Path(__file__).parent / f"{name}.seen"
            if seen.exists():
                return False
            seen.touch()
            return True
        """
    )
    return pytester


def run(project: pytest.Pytester, test: str, *arguments: str) -> pytest.RunResult:
    project.makepyfile(
        test_it=f"""
        import subprocess
        import sys

        import confluent_kafka
        import pytest
        from first_times import is_first
        from tests.support.eventually import RanOutOfTime

        {test}
        """
    )
    return project.runpytest_subprocess(*arguments)


def test_a_wrong_value_is_not_run_again(project: pytest.Pytester) -> None:
    result = run(
        project,
        """def test_value():
            assert not is_first("value")
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*second chances*")


def test_a_wait_that_ran_out_is_run_again_and_shown(project: pytest.Pytester) -> None:
    result = run(
        project,
        """def test_wait():
            print("what was printed then")
            if is_first("wait"):
                raise RanOutOfTime("the record did not come")
        """,
    )
    assert result.parseoutcomes() == {"passed": 1, LATE: 1}
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "*what failed at first*",
            "*RanOutOfTime: the record did not come*",
            "*what was printed then*",
            "a wait ran out of time, run again: test_it.py::test_wait",
        ]
    )


def test_a_wait_that_runs_out_again_is_a_failure(project: pytest.Pytester) -> None:
    result = run(
        project,
        """def test_wait():
            raise RanOutOfTime("never")
        """,
    )
    assert result.parseoutcomes() == {"failed": 1, LATE: 1}


def test_a_wrong_value_at_the_second_time_is_a_failure(project: pytest.Pytester) -> None:
    result = run(
        project,
        """def test_both():
            if is_first("both"):
                raise RanOutOfTime("late")
            assert 1 == 2
        """,
    )
    assert result.parseoutcomes() == {"failed": 1, LATE: 1}
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])


@pytest.mark.parametrize(
    "failure",
    [
        "raise TimeoutError('late')",
        "subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE).wait(0.01)",
        "raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(-185))",
        "raise ExceptionGroup('two', [RanOutOfTime('a'), TimeoutError('b')])",
    ],
    ids=["standard library", "process", "librdkafka", "group"],
)
def test_other_waits_that_ran_out(project: pytest.Pytester, failure: str) -> None:
    result = run(
        project,
        f"""def test_wait():
            if is_first("wait"):
                {failure}
        """,
    )
    assert result.parseoutcomes() == {"passed": 1, LATE: 1}


@pytest.mark.parametrize(
    "failure",
    [
        "raise ExceptionGroup('two', [RanOutOfTime('a'), ValueError('b')])",
        "raise ConnectionResetError('gone')",
        "raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(2))",
    ],
)
def test_other_errors_are_not_run_again(project: pytest.Pytester, failure: str) -> None:
    result = run(
        project,
        f"""def test_error():
            if is_first("error"):
                {failure}
        """,
    )
    result.assert_outcomes(failed=1)


def test_a_failed_teardown_counts_as_what_it_is(project: pytest.Pytester) -> None:
    result = run(
        project,
        """@pytest.fixture
        def untidy():
            yield
            assert not is_first("teardown"), "something was left"

        def test_late(untidy):
            if is_first("late"):
                raise RanOutOfTime("late")
        """,
    )
    result.assert_outcomes(failed=1, errors=1)


def test_the_second_run_has_new_fixtures(project: pytest.Pytester) -> None:
    result = run(
        project,
        """@pytest.fixture(scope="session")
        def shared():
            if is_first("setup"):
                raise RanOutOfTime("not ready")
            return []

        def test_it_begins_anew(shared):
            assert not shared
            shared.append(1)
            if is_first("call"):
                raise RanOutOfTime("late")

        def test_the_next_has_the_same(shared):
            shared.append(2)
            if is_first("next"):
                raise RanOutOfTime("late")
            assert shared == [2]
        """,
    )
    assert result.parseoutcomes() == {"failed": 1, "passed": 1, LATE: 2}


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n2")], ids=["alone", "two workers"])
@pytest.mark.parametrize("count", [3, 4])
def test_more_than_three_second_chances_are_red(
    project: pytest.Pytester, workers: tuple[str, ...], count: int
) -> None:
    result = run(
        project,
        f"""@pytest.mark.parametrize("number", range({count}))
        def test_late(number):
            if is_first(number):
                raise RanOutOfTime("late")
        """,
        *workers,
    )
    assert result.parseoutcomes() == {"passed": count, LATE: count}
    assert (result.ret == pytest.ExitCode.OK) == (count == 3)
    if count == 4:
        result.stdout.fnmatch_lines(["4 tests needed a second chance, and 3 may: this run is red*"])

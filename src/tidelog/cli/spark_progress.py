"""How a long job tells what it does: a line a batch, a summary at the end, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from tidelog.cli.output import aside, duration_text, people, plural, size_text

if TYPE_CHECKING:
    from tidelog.spark.jobs.follower import BatchDone
    from tidelog.spark.jobs.replay import TurnDone

_DURATION = re.compile(r"(\d{1,9})(s|m|h|d)")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str | None, *, option: str) -> float | None:
    """A duration of the command line; None stays None."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise typer.BadParameter(
            f"must be a time as 60s, 5m, 24h or 7d: not {text!r}", param_hint=option
        )
    return float(int(match[1]) * _UNIT_S[match[2]])


def hours(text: str, *, option: str) -> int:
    """The same in hours, rounded up."""
    return -(-int(seconds(text, option=option) or 0) // 3600)


def moment_us(text: str | None, *, option: str) -> int | None:
    """A time of the command line, in microseconds since 1970. Not "so long ago": a job that is
    started again must mean the same time."""
    if text is None:
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000) * 1000
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"must be a time as 2026-01-31 or 2026-01-31T12:00: not {text!r}", param_hint=option
        ) from None


class FollowReport:
    """The progress of a job that follows a topic. With `as_json`, each batch is a line of JSON on
    standard output, and so is the summary, which has `"done": true`."""

    def __init__(self, topic: str, table: Path, *, verb: str, as_json: bool) -> None:
        self._topic = topic
        self._table = table
        self._verb = verb
        self._as_json = as_json
        self._console = aside()
        self._status = self._console.status("reading")
        self._began_s = time.monotonic()
        self._rows = self._data_bytes = self._file_bytes = self._files = self._batches = 0
        self._lag: int | None = None
        self._cuts: dict[int, int] = {}

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._status.stop()

    def say(self, text: str) -> None:
        self._console.print(text)

    def on_trouble(self, reason: str) -> None:
        self._console.print(reason, style="yellow")

    def on_batch(self, done: BatchDone) -> None:
        moved = done.moved
        self._rows += moved.rows
        self._data_bytes += moved.data_bytes
        self._file_bytes += moved.file_bytes
        self._files += moved.files
        self._batches += 1
        self._lag = done.lag
        self._cuts |= done.cuts
        rate = moved.data_bytes / max(done.seconds, 0.001) / 1e6
        if self._as_json:
            row = {
                "batch": done.batch_id,
                "rows": moved.rows,
                "megabytes_per_second": round(rate, 1),
                "lag": done.lag,
            }
            _json_line(row)
            return
        self._console.print(
            f"batch {done.batch_id}: {plural(moved.rows, 'row')}, {rate:.1f} MB/s, lag {done.lag:,}"
        )

    def summarize(self) -> None:
        took_s = time.monotonic() - self._began_s
        if self._as_json:
            _json_line(self._summary(took_s))
            return
        if not self._batches:
            people().print(f"{self._table}: nothing new in {self._topic}")
            return
        people().print(
            f"{self._table}: {plural(self._rows, 'row')} {self._verb} in "
            f"{plural(self._batches, 'batch').replace('batchs', 'batches')} and "
            f"{duration_text(took_s)} ({self._data_bytes / max(took_s, 0.001) / 1e6:.1f} MB/s), "
            f"{plural(self._files, 'file')}, {size_text(self._file_bytes)}"
        )

    def _summary(self, took_s: float) -> dict[str, Any]:
        return {
            "done": True,
            "topic": self._topic,
            "table": str(self._table),
            "rows": self._rows,
            "batches": self._batches,
            "files": self._files,
            "data_bytes": self._data_bytes,
            "file_bytes": self._file_bytes,
            "seconds": round(took_s, 3),
            "lag": self._lag or 0,
            "next_offsets": {str(each): self._cuts[each] for each in sorted(self._cuts)},
        }


class ReplayReport:
    """The progress of a replay, in the same way."""

    def __init__(self, source: str, topic: str, *, as_json: bool) -> None:
        self._source = source
        self._topic = topic
        self._as_json = as_json
        self._console = aside()
        self._status = self._console.status("replaying")
        self._began_s = time.monotonic()
        self._records = self._data_bytes = 0

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._status.stop()

    def on_trouble(self, reason: str) -> None:
        self._console.print(reason, style="yellow")

    def on_turn(self, done: TurnDone) -> None:
        self._records += done.records
        self._data_bytes += done.data_bytes
        rate = done.data_bytes / max(done.seconds, 0.001) / 1e6
        if self._as_json:
            _json_line({"records": self._records, "megabytes_per_second": round(rate, 1)})
        elif done.records:
            self._console.print(f"{plural(self._records, 'record')} replayed, {rate:.1f} MB/s")

    def summarize(self) -> None:
        took_s = time.monotonic() - self._began_s
        if self._as_json:
            _json_line(
                {
                    "done": True,
                    "source": self._source,
                    "topic": self._topic,
                    "records": self._records,
                    "data_bytes": self._data_bytes,
                    "seconds": round(took_s, 3),
                }
            )
        elif self._records:
            people().print(
                f"{plural(self._records, 'record')} of {self._source} replayed into "
                f"{self._topic} in {duration_text(took_s)}"
            )
        else:
            people().print(
                f"nothing to replay: {self._topic} has all of {self._source} (--again begins anew)"
            )


def _json_line(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


@contextmanager
def ending_with_signals(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C, or a service's `TERM`, ends the job after its current batch; a second one at once.

    Whatever ends it, no record is lost or there twice: this is only so that the work of a batch
    is not thrown away.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

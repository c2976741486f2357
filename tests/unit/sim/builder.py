"""Histories written by hand, for tests: a clean one is easy to write and easy to spoil."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.sim.checkers import check_history
from tidelog.sim.history import Entry, History, Partition

TP: Partition = ("t", 0)


class Story:
    """Each call is one complete operation, unless it says otherwise. Time passes with each."""

    def __init__(self) -> None:
        self._now_ns = 0
        self.history = History(self._tick)

    def _tick(self) -> int:
        self._now_ns += 1_000_000
        return self._now_ns

    @property
    def entries(self) -> list[Entry]:
        return self.history.entries

    def send(
        self, value: int, offset: int, *, proc: int = 1, pid: int | None = None, ts: int = 0
    ) -> Story:
        self.invoke_send(value, proc=proc, pid=pid, ts=ts)
        return self.end_send(value, offset, proc=proc)

    def invoke_send(
        self, value: int, *, proc: int = 1, pid: int | None = None, ts: int = 0
    ) -> Story:
        epoch = None if pid is None else 0
        self.history.add(proc, "invoke", "send", tp=TP, value=value, pid=pid, pepoch=epoch, ts=ts)
        return self

    def end_send(self, value: int, offset: int, *, proc: int = 1) -> Story:
        self.history.add(proc, "ok", "send", tp=TP, value=[offset, value])
        return self

    def fail_send(self, value: int, err: str, *, offset: int = -1, proc: int = 1) -> Story:
        self.invoke_send(value, proc=proc)
        self.history.add(proc, "fail", "send", tp=TP, value=[offset, value], err=err)
        return self

    def lose_send(self, value: int, *, proc: int = 1, pid: int | None = None) -> Story:
        self.invoke_send(value, proc=proc, pid=pid)
        self.history.add(proc, "info", "send", tp=TP, value=[-1, value], err="timed out")
        return self

    def poll(
        self,
        position: int,
        records: Sequence[tuple[int, int]],
        *,
        proc: int = 9,
        digests: Sequence[tuple[int, int]] = (),
    ) -> Story:
        self.history.add(proc, "invoke", "poll", value={TP: position})
        value = {TP: [list(record) for record in records]}
        self.history.add(proc, "ok", "poll", value=value, digests={TP: list(digests)})
        return self

    def poll_error(
        self, position: int, err: str, *, high_watermark: int = -1, proc: int = 9
    ) -> Story:
        invoked = self.history.add(proc, "invoke", "poll", value={TP: position}).i
        self.history.add(proc, "ok", "poll", value={})
        value = [position, high_watermark, invoked]
        self.history.add(proc, "fail", "poll_error", tp=TP, value=value, err=err)
        return self

    def look_up(self, asked: int, offset: int, *, timestamp: int = -1, proc: int = 7) -> Story:
        self.history.add(proc, "invoke", "list_offsets", tp=TP, value=asked)
        self.history.add(proc, "ok", "list_offsets", tp=TP, value=[offset, timestamp])
        return self

    def damage(self, first_offset: int, last_offset: int) -> Story:
        self.history.add(0, "info", "damage", tp=TP, value=[first_offset, last_offset])
        return self

    def loss(self) -> Story:
        self.history.add(0, "info", "loss", value=[TP])
        return self

    def final_reads(self) -> Story:
        self.history.add(0, "info", "final_reads", value=[TP])
        return self

    def broken(self) -> list[str]:
        """The broken properties, each named once."""
        return sorted({finding.property for finding in check_history(self.entries)[0]})

"""Histories written by hand, for tests: a clean one is easy to write and easy to spoil."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.sim.checkers import check_history
from tidelog.sim.history import Entry, EntryType, History, Partition

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

    def commit(self, value: int, *, gen: int = -1, proc: int = 30) -> Story:
        return self.invoke_commit(value, gen=gen, proc=proc).end_commit(value, proc=proc)

    def invoke_commit(self, value: int, *, gen: int = -1, proc: int = 30) -> Story:
        self.history.add(proc, "invoke", "commit", tp=TP, value=value, group="g", gen=gen)
        return self

    def end_commit(self, value: int, *, type: EntryType = "ok", proc: int = 30) -> Story:
        self.history.add(proc, type, "commit", tp=TP, value=value, group="g")
        return self

    def fetch_offset(self, value: int, *, proc: int = 31) -> Story:
        return self.invoke_fetch_offset(proc=proc).end_fetch_offset(value, proc=proc)

    def invoke_fetch_offset(self, *, proc: int = 31) -> Story:
        self.history.add(proc, "invoke", "fetch_offset", tp=TP, group="g")
        return self

    def end_fetch_offset(self, value: int, *, proc: int = 31) -> Story:
        self.history.add(proc, "ok", "fetch_offset", tp=TP, value=value, group="g")
        return self

    def join(self, member_id: str, gen: int, *, leader: str = "a", proc: int = 40) -> Story:
        self.history.add(proc, "invoke", "join", group="g")
        self.history.add(proc, "ok", "join", group="g", gen=gen, value=[member_id, leader])
        return self

    def hand_in(
        self, gen: int, shares: Sequence[tuple[str, Sequence[Partition]]], *, proc: int = 41
    ) -> Story:
        """The leader's SyncGroup, whose answer is lost."""
        value = [[member_id, list(share)] for member_id, share in shares]
        self.history.add(proc, "invoke", "sync", group="g", gen=gen, value=value)
        self.history.add(proc, "info", "sync", group="g", err="lost")
        return self

    def sync(self, member_id: str, gen: int, share: Sequence[Partition]) -> Story:
        """A follower's SyncGroup."""
        self.history.add(42, "invoke", "sync", group="g", gen=gen, value=[])
        value = [member_id, [list(tp) for tp in share]]
        self.history.add(42, "ok", "sync", group="g", gen=gen, value=value)
        return self

    def reconcile(
        self,
        member: str,
        epoch: int,
        owned: Sequence[Partition],
        told: tuple[int, Sequence[Partition] | None],
    ) -> Story:
        """A heartbeat of the newer protocol: what the member has, and the epoch and partitions
        that it is told."""
        proc = 50 + ord(member)
        for type, gen, tps in (("invoke", epoch, owned), ("ok", *told)):
            value = None if tps is None else [list(tp) for tp in tps]
            self.history.add(
                proc,
                "invoke" if type == "invoke" else "ok",
                "reconcile",
                group="g",
                member=member,
                gen=gen,
                value=value,
            )
        return self

    def commit_as(self, member: str, epoch: int, value: int) -> Story:
        for type in ("invoke", "ok"):
            self.history.add(
                32,
                "invoke" if type == "invoke" else "ok",
                "commit",
                tp=TP,
                value=value,
                group="g",
                member=member,
                gen=epoch,
            )
        return self

    def forgets(self, retention_ms: int | None = None) -> Story:
        self.history.add(0, "info", "forgets", group="g", value=retention_ms)
        return self

    def clock(self, wall_ms: int) -> Story:
        self.history.add(0, "info", "clock", value=wall_ms)
        return self

    def retained(self, kind: str, value: object) -> Story:
        self.history.add(0, "info", "retained", tp=TP, value=[kind, value])
        return self

    def delete_records(self, before: int) -> Story:
        self.history.add(0, "info", "delete_records", tp=TP, value=before)
        return self

    def find_start(self, start: int) -> Story:
        self.history.add(63, "invoke", "find_start", tp=TP)
        self.history.add(63, "ok", "find_start", tp=TP, value=start)
        return self

    def work(self, group: str, offset: int) -> Story:
        self.history.add(64, "invoke", "work_commit", tp=TP, group=group, value=offset)
        self.history.add(64, "ok", "work_commit", tp=TP, group=group, value=offset)
        return self

    def find_work(self, group: str, offset: int) -> Story:
        self.history.add(65, "invoke", "work_offset", tp=TP, group=group)
        self.history.add(65, "ok", "work_offset", tp=TP, group=group, value=offset)
        return self

    def alter(self, number: int) -> Story:
        self.history.add(66, "invoke", "alter", tp=TP, group="configs", value=number)
        self.history.add(66, "ok", "alter", tp=TP, group="configs", value=number)
        return self

    def describe(self, number: int) -> Story:
        self.history.add(67, "invoke", "describe", tp=TP, group="configs")
        self.history.add(67, "ok", "describe", tp=TP, group="configs", value=number)
        return self

    def cleaned(
        self,
        *,
        is_compacted: bool = True,
        forgets_tombstones: bool = False,
        is_replicated: bool = False,
    ) -> Story:
        value = [is_compacted, forgets_tombstones, not is_compacted, is_replicated]
        self.history.add(0, "info", "cleaned", tp=TP, value=value)
        return self

    def put(self, key: int, number: int, offset: int, *, is_tombstone: bool = False) -> Story:
        value = [[key, number, int(is_tombstone)]]
        self.history.add(60, "invoke", "put", tp=TP, value=value)
        self.history.add(60, "ok", "put", tp=TP, value=offset)
        return self

    def lose_put(self, key: int, number: int) -> Story:
        self.history.add(61, "invoke", "put", tp=TP, value=[[key, number, 0]])
        self.history.add(61, "info", "put", tp=TP, err="lost")
        return self

    def scan(self, start: int, end: int, records: Sequence[tuple[int, int, int, int]]) -> Story:
        """One page from the log's start on; records are `(offset, key, number, is_tombstone)`."""
        self.history.add(62, "invoke", "scan", tp=TP, value=start)
        value = [start, end, [list(record) for record in records]]
        self.history.add(62, "ok", "scan", tp=TP, value=value)
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

"""A history as one partition saw it: sends, reads and look-ups, ready for the checks.

Where a partition may rightly lose records (a `loss` entry names it), it has one view per stretch
between losses; what was sent in an earlier stretch is known, and may or may not be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import NamedTuple

from tidelog.sim.history import Entry, EntryType, Operation, Partition, operations

EARLIEST = -2
LATEST = -1


class Send(NamedTuple):
    """One record sent. `offset` is what the answer said, -1 where there was none."""

    value: int
    proc: int
    pid: int
    timestamp: int
    invoked: int
    ended: float
    ended_ns: int
    type: EntryType
    offset: int
    err: str | None


class Read(NamedTuple):
    """One partition's share of a poll that was answered. `is_alone` says that all other
    partitions of the poll came back empty."""

    proc: int
    invoked: int
    ended: int
    ended_ns: int
    position: int
    records: list[tuple[int, int]]
    digests: list[tuple[int, int]]
    is_alone: bool


class ReadError(NamedTuple):
    """A partition's error in a poll."""

    proc: int
    invoked: int
    ended: int
    position: int
    high_watermark: int
    err: str


class Lookup(NamedTuple):
    """A ListOffsets: `asked` is a timestamp, EARLIEST or LATEST."""

    proc: int
    invoked: int
    ended: float
    asked: int
    type: EntryType
    offset: int
    timestamp: int
    err: str | None


class Damage(NamedTuple):
    """Offsets that the simulator has made unreadable from entry `at` on."""

    first_offset: int
    last_offset: int
    at: int


@dataclass(slots=True)
class View:
    """One partition in one stretch of the history."""

    tp: Partition
    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    errors: list[ReadError] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    earlier: dict[int, Send] = field(default_factory=dict)
    is_last: bool = True
    has_final_reads: bool = False
    _known: dict[int, list[int]] | None = None

    def __str__(self) -> str:
        return f"{self.tp[0]}-{self.tp[1]}"

    def is_damaged(self, offset: int) -> bool:
        return any(d.first_offset <= offset <= d.last_offset for d in self.damages)

    def offsets_of_values(self) -> dict[int, list[int]]:
        """Every offset each value was proven to be at, by an answer or by a read. Several checks
        ask: a view is whole when it is checked, so once is enough."""
        if self._known is None:
            self._known = {}
            for offset, value, _ in self.sightings():
                offsets = self._known.setdefault(value, [])
                if offset not in offsets:
                    offsets.append(offset)
        return self._known

    def sightings(self) -> Iterator[tuple[int, int, int]]:
        """Each proof that an offset holds a value: `(offset, value, entry)`."""
        for send in self.sends:
            if send.type == "ok" and send.offset >= 0:
                yield send.offset, send.value, int(send.ended)
        for read in self.reads:
            for offset, value in read.records:
                yield offset, value, read.ended


def views(entries: Sequence[Entry]) -> Iterator[View]:
    """A view per partition and stretch, partitions in order of their first appearance."""
    losses = _losses(entries)
    for tp, (own_operations, notes) in _by_partition(entries).items():
        bounds = [0, *losses.get(tp, []), len(entries)]
        earlier: dict[int, Send] = {}
        damages: list[Damage] = []
        for start, stop in pairwise(bounds):
            view = View(tp, damages=list(damages), earlier=dict(earlier))
            view.is_last = stop == len(entries)
            for operation in own_operations:
                if start <= operation.invocation.i < stop:
                    _add(view, _cut(operation, stop))
            for entry in notes:
                if start <= entry.i < stop:
                    _add_note(view, entry)
            yield view
            earlier.update({send.value: send for send in view.sends})
            damages = view.damages


def _by_partition(
    entries: Sequence[Entry],
) -> dict[Partition, tuple[list[Operation], list[Entry]]]:
    """Each partition's operations, and the notes about it that are nobody's operation."""
    found: dict[Partition, tuple[list[Operation], list[Entry]]] = {}
    for operation in operations(entries):
        invocation = operation.invocation
        if invocation.f == "poll":
            tps = list(invocation.value)
        else:
            tps = [] if invocation.tp is None else [invocation.tp]
        for tp in tps:
            found.setdefault(tp, ([], []))[0].append(operation)
    for entry in entries:
        if entry.f in ("damage", "poll_error"):
            tps = [] if entry.tp is None else [entry.tp]
        else:
            tps = entry.value if entry.f == "final_reads" else []
        for tp in tps:
            found.setdefault(tp, ([], []))[1].append(entry)
    return found


def _losses(entries: Sequence[Entry]) -> dict[Partition, list[int]]:
    found: dict[Partition, list[int]] = {}
    for entry in entries:
        if entry.f == "loss":
            for tp in entry.value:
                found.setdefault(tp, []).append(entry.i)
    return found


def _cut(operation: Operation, stop: int) -> Operation:
    """An operation that reaches over the end of the stretch never completed, as far as it knows."""
    if operation.completion is not None and operation.completion.i >= stop:
        return Operation(operation.invocation, None)
    return operation


def _add(view: View, operation: Operation) -> None:
    kind = operation.invocation.f
    if kind == "send":
        view.sends.append(_send(operation))
    elif kind == "poll":
        _add_read(view, operation)
    elif kind == "list_offsets":
        view.lookups.append(_lookup(operation))


def _add_note(view: View, entry: Entry) -> None:
    if entry.f == "damage":
        view.damages.append(Damage(entry.value[0], entry.value[1], entry.i))
    elif entry.f == "final_reads":
        view.has_final_reads = True
    elif entry.f == "poll_error":
        position, high_watermark, invoked = entry.value
        view.errors.append(
            ReadError(entry.proc, invoked, entry.i, position, high_watermark, entry.err or "")
        )


def _send(operation: Operation) -> Send:
    invocation, completion = operation.invocation, operation.completion
    return Send(
        value=invocation.value,
        proc=invocation.proc,
        pid=-1 if invocation.pid is None else invocation.pid,
        timestamp=-1 if invocation.ts is None else invocation.ts,
        invoked=invocation.i,
        ended=inf if completion is None else completion.i,
        ended_ns=0 if completion is None else completion.t,
        type=operation.type,
        offset=-1 if completion is None else completion.value[0],
        err=None if completion is None else completion.err,
    )


def _add_read(view: View, operation: Operation) -> None:
    invocation, completion = operation.invocation, operation.completion
    if completion is None or completion.type != "ok" or view.tp not in completion.value:
        return
    others = sum(len(records) for tp, records in completion.value.items() if tp != view.tp)
    digests = (completion.digests or {}).get(view.tp, [])
    view.reads.append(
        Read(
            proc=invocation.proc,
            invoked=invocation.i,
            ended=completion.i,
            ended_ns=completion.t,
            position=invocation.value[view.tp],
            records=[(offset, value) for offset, value in completion.value[view.tp]],
            digests=[(offset, digest) for offset, digest in digests],
            is_alone=others == 0,
        )
    )


def _lookup(operation: Operation) -> Lookup:
    invocation, completion = operation.invocation, operation.completion
    answer = [-1, -1] if completion is None or completion.value is None else completion.value
    return Lookup(
        proc=invocation.proc,
        invoked=invocation.i,
        ended=operation.ended,
        asked=invocation.value,
        type=operation.type,
        offset=answer[0],
        timestamp=answer[1],
        err=None if completion is None else completion.err,
    )

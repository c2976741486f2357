"""C22: a log that is cleaned loses what it may lose, and nothing else.

Records keep their offsets. Below the log's start everything may go; above it a record goes only
where the topic is compacted and a later record has its key, and a tombstone also when it has been
there for long enough. The start itself never goes back (C21). Each answer to a fetch is judged by
itself, for between two of them the log may have been cleaned.

What may be done to the topic is noted once, by the entry "cleaned": whether it is compacted,
whether its tombstones may go, whether its start moves, and whether there are several replicas. Then
only a start that was acknowledged ("delete_records") binds the leaders to come: one that a leader
has merely moved to may be told before the others have heard of it, as with Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.history import Entry, Operation, Partition, operations


@dataclass(slots=True)
class _Written:
    """One record sent. `offset` is None as long as no answer and no reader has told it."""

    key: int
    number: int
    is_tombstone: bool
    invoked: int
    acknowledged: float = inf
    offset: int | None = None


@dataclass(slots=True)
class _Table:
    """One partition that is cleaned."""

    tp: Partition
    is_compacted: bool
    forgets_tombstones: bool
    is_shortened: bool
    written: dict[int, _Written] = field(default_factory=dict)
    pages: list[Operation] = field(default_factory=list)
    starts: list[tuple[int, int, int]] = field(default_factory=list)
    """`(invoked, ended, log start)` of each answer that told it."""
    promised: list[tuple[int, int]] | None = None
    """`(ended, log start)` of each that binds, if not all of them do."""


def check_cleaning(entries: Sequence[Entry]) -> list[Finding]:
    """C21 and C22, for every partition that is cleaned."""
    findings: list[Finding] = []
    for table in _tables(entries):
        findings += _check_start(table)
        findings += _check_places(table)
        for page in table.pages:
            findings += _check_page(table, page)
    return findings


def _tables(entries: Sequence[Entry]) -> list[_Table]:
    tables: dict[Partition, _Table] = {}
    for entry in entries:
        if entry.f == "cleaned" and entry.tp is not None:
            is_compacted, forgets_tombstones, is_shortened, *is_replicated = entry.value
            tables[entry.tp] = _Table(
                entry.tp,
                is_compacted=is_compacted,
                forgets_tombstones=forgets_tombstones,
                is_shortened=is_shortened,
                promised=[] if any(is_replicated) else None,
            )
    for entry in entries:
        if entry.f == "delete_records" and entry.tp is not None:
            promised = tables[entry.tp].promised
            assert promised is not None
            promised.append((entry.i, entry.value))
    own = [entry for entry in entries if entry.f in ("put", "scan", "find_start")]
    for operation in operations(own):
        invocation, completion = operation.invocation, operation.completion
        assert invocation.tp is not None
        table = tables[invocation.tp]
        if invocation.f == "put":
            _add_put(table, operation)
        elif completion is not None and operation.is_ok:
            _add_look(table, operation, completion)
    return list(tables.values())


def _add_look(table: _Table, operation: Operation, completion: Entry) -> None:
    """In a cluster a page tells where the log of the node that served it starts, which may be one
    that leads no more; only who asks for the start is told the partition's."""
    invoked, ended = operation.invocation.i, completion.i
    if operation.invocation.f == "find_start":
        table.starts.append((invoked, ended, completion.value))
        return
    table.pages.append(operation)
    if table.promised is None:
        table.starts.append((invoked, ended, completion.value[0]))


def _add_put(table: _Table, operation: Operation) -> None:
    if operation.type == "fail":
        return
    completion = operation.completion
    for index, (key, number, is_tombstone) in enumerate(operation.invocation.value):
        written = _Written(key, number, bool(is_tombstone), operation.invocation.i)
        if completion is not None and operation.is_ok:
            written.acknowledged, written.offset = completion.i, completion.value + index
        table.written[number] = written


def _check_start(table: _Table) -> list[Finding]:
    findings = []
    told = sorted((ended, start) for _, ended, start in table.starts)
    if table.promised is not None:
        told = sorted(table.promised)
    highest, index = -1, 0
    for invoked, _, start in sorted(table.starts):
        while index < len(told) and told[index][0] < invoked:
            highest = max(highest, told[index][1])
            index += 1
        if start < highest:
            text = f"{table.tp} starts at {start}, but had started at {highest}"
            findings.append(Finding("C21", text, invoked))
    return findings


def _check_places(table: _Table) -> list[Finding]:
    """Whatever is read was written, and lies where it always lay, in order."""
    findings = []
    holders = {one.offset: one for one in table.written.values() if one.offset is not None}
    for page in table.pages:
        assert page.completion is not None
        before = -1
        for offset, key, number, is_tombstone in page.completion.value[2]:
            written = table.written.get(number)
            if written is None or (written.key, written.is_tombstone) != (key, bool(is_tombstone)):
                text = f"{table.tp} offset {offset} holds {number}, which nobody wrote so"
                findings.append(Finding("C22", text, page.completion.i))
                continue
            if written.offset is None:
                written.offset = offset
            is_moved = written.offset != offset or holders.setdefault(offset, written) != written
            if is_moved or offset <= before:
                text = f"{table.tp} {number} is at offset {offset}, and was at {written.offset}"
                findings.append(Finding("C22", text, page.completion.i))
            before = offset
    return findings


def _check_page(table: _Table, page: Operation) -> list[Finding]:
    """Nothing is missing from a page that was acknowledged before and that nothing replaces."""
    completion = page.completion
    assert completion is not None
    log_start, end, records = completion.value
    start = max(page.invocation.value, log_start)
    present = [number for _, _, number, _ in records]
    lowest: dict[int, int] = {}
    for offset, key, _, _ in records:
        lowest.setdefault(key, offset)
    findings = []
    for one in table.written.values():
        if one.offset is None or not start <= one.offset < end or one.number in present:
            continue
        if one.acknowledged > page.invocation.i or _is_replaced(table, one, completion.i):
            continue
        is_excused = table.is_compacted and table.forgets_tombstones and one.is_tombstone
        if is_excused and lowest.get(one.key, inf) > one.offset:
            continue
        text = f"{table.tp} lost {one.number}, the last of key {one.key}, at offset {one.offset}"
        findings.append(Finding("C22", text, completion.i))
    return findings


def _is_replaced(table: _Table, one: _Written, before: int) -> bool:
    """A later record of the key was written, or may have been.

    A write that was lost, and that no reader ever met, is an excuse only if something else has
    taken its place in turn. Else it would be the last of its key, and would have been read.
    """
    assert one.offset is not None
    if not table.is_compacted:
        return False
    others = [w for w in table.written.values() if w.key == one.key and w is not one]
    later = [w for w in others if w.offset is not None and w.offset > one.offset]
    if any(other.invoked < before for other in later):
        return True
    unmet = [w for w in others if w.offset is None and w.invoked < before]
    if later or table.is_shortened:
        return bool(unmet)
    return table.forgets_tombstones and any(other.is_tombstone for other in unmet)

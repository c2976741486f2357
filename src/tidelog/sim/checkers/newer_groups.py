"""Groups of the newer protocol (KIP-848): epochs, owners, and commits of those who are behind.

A member *certainly owns* a partition from the answer that gave it until the last heartbeat that
was welcome while it had it: had the coordinator given the member up in between, that heartbeat
would have been refused. Two members must not certainly own a partition at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.history import Entry, Operation, operations

_Tp = tuple[str, int]


@dataclass(slots=True)
class _Span:
    tp: _Tp
    member: str
    begin: int
    end: int


@dataclass(slots=True)
class _Member:
    epoch: int = -1
    owned: dict[_Tp, _Span] = field(default_factory=dict)


def check_epochs(entries: Sequence[Entry]) -> list[Finding]:
    """G1: the epochs that a member is told never fall."""
    findings = []
    told: dict[tuple[object, object], int] = {}
    for entry in entries:
        if entry.f != "reconcile" or entry.type != "ok" or entry.gen is None or entry.gen < 0:
            continue
        key = (entry.group, entry.member)
        if entry.gen < told.get(key, 0):
            text = f"{entry.member} of {entry.group} is told epoch {entry.gen} after {told[key]}"
            findings.append(Finding("G1", text, entry.i))
        told[key] = max(entry.gen, told.get(key, 0))
    return findings


def check_owners(entries: Sequence[Entry]) -> list[Finding]:
    """G2, C18: a partition has one owner at a time."""
    findings = []
    by_tp: dict[tuple[object, _Tp], list[_Span]] = {}
    for group, span in _spans(entries):
        if span.begin < span.end:
            by_tp.setdefault((group, span.tp), []).append(span)
    for (group, tp), spans in by_tp.items():
        spans.sort(key=lambda span: (span.begin, span.end))
        latest = spans[0]
        for span in spans[1:]:
            if span.begin < latest.end and span.member != latest.member:
                text = f"{group} {tp} belongs to {latest.member} and to {span.member}"
                findings.append(Finding("G2", text, span.begin))
            if span.end > latest.end:
                latest = span
    return findings


def _spans(entries: Sequence[Entry]) -> list[tuple[object, _Span]]:
    members: dict[tuple[object, object], _Member] = {}
    spans: list[tuple[object, _Span]] = []
    own = [entry for entry in entries if entry.f == "reconcile"]
    for operation in operations(own):
        invocation, completion = operation.invocation, operation.completion
        member = members.setdefault((invocation.group, invocation.member), _Member())
        if (invocation.gen or 0) <= 0:
            member.owned.clear()
        sent = _partitions(invocation.value)
        if completion is None or not operation.is_ok:
            # The answer is lost, but the coordinator may have heard what it no longer has.
            for tp in [tp for tp in member.owned if tp not in sent]:
                del member.owned[tp]
            continue
        for tp, span in list(member.owned.items()):
            span.end = max(span.end, invocation.i)
            if tp not in sent:
                del member.owned[tp]
        if completion.value is None or (invocation.gen or 0) < 0:
            continue
        for tp in _partitions(completion.value):
            if tp not in member.owned:
                span = _Span(tp, str(invocation.member), completion.i, completion.i)
                member.owned[tp] = span
                spans.append((invocation.group, span))
    return spans


def _partitions(value: Sequence[Sequence[object]] | None) -> list[_Tp]:
    return [(str(topic), int(str(number))) for topic, number in value or ()]


def check_stale_commits(entries: Sequence[Entry]) -> list[Finding]:
    """G3: who has been told of its next epoch commits nothing at the one before."""
    findings = []
    told: dict[tuple[object, object], list[tuple[int, int]]] = {}
    for entry in entries:
        if entry.f == "reconcile" and entry.type == "ok" and entry.gen is not None:
            told.setdefault((entry.group, entry.member), []).append((entry.i, entry.gen))
    for operation in _commits(entries):
        invocation = operation.invocation
        epochs = told.get((invocation.group, invocation.member), ())
        newest = max((epoch for at, epoch in epochs if at < invocation.i), default=-1)
        if invocation.gen is not None and 0 <= invocation.gen < newest:
            text = (
                f"{invocation.group} {invocation.tp} took a commit of {invocation.member} "
                f"at epoch {invocation.gen}, after it was told {newest}"
            )
            findings.append(Finding("G3", text, invocation.i))
    return findings


def _commits(entries: Sequence[Entry]) -> list[Operation]:
    own = [entry for entry in entries if entry.f == "commit" and entry.member is not None]
    return [operation for operation in operations(own) if operation.is_ok]

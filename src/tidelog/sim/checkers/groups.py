"""C17: a group's offset of a partition is a register that behaves as if there were one copy of it.

Every commit is of another number, so a fetch tells which commit it saw. That makes the question
decidable at a glance (Gibbons and Korach, "Testing shared memories", 1997): a commit and the
fetches that saw it must have happened in one go, without another commit between. From the first end
among them to the last beginning that number was the register's, and no other number was. So no two
such spans overlap, and no commit with its fetches fits as a whole into another's span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.history import Entry, Operation, operations

NOTHING = -1
"""What a fetch is told when nothing was ever committed."""

_WRITES = ("commit", "alter")
_READS = ("fetch_offset", "describe")


@dataclass(slots=True)
class _Number:
    """A commit and the fetches that saw it, as `(invoked, ended)` each."""

    value: int
    commit: tuple[float, float]
    fetches: list[tuple[float, float]] = field(default_factory=list)

    @property
    def span(self) -> _Span:
        uses = (self.commit, *self.fetches)
        first_end, last_begin = min(ended for _, ended in uses), max(begun for begun, _ in uses)
        return _Span(first_end, last_begin, self.value)


class _Span(NamedTuple):
    """From the first end to the last begin of all that has to do with a value."""

    first_end: float
    last_begin: float
    value: int

    @property
    def is_certain(self) -> bool:
        """It was the register's for a span of time, not just at some moment."""
        return self.first_end < self.last_begin


def check_registers(entries: Sequence[Entry]) -> list[Finding]:
    """C17, for every group and partition of the history; and for the settings of topics, which
    are registers too. A group that forgets may tell nothing, which is G6's to judge."""
    registers: dict[tuple[object, object], list[Operation]] = {}
    forgetful = _forgetful(entries)
    for operation in operations([entry for entry in entries if entry.f in (*_WRITES, *_READS)]):
        invocation, completion = operation.invocation, operation.completion
        is_void = completion is not None and completion.value == NOTHING
        if not (is_void and invocation.f in _READS and invocation.group in forgetful):
            registers.setdefault((invocation.group, invocation.tp), []).append(operation)
    findings = []
    for (group, tp), own in registers.items():
        findings += _check_register(f"{group} {tp}", own)
    return findings


def _check_register(name: str, own: Sequence[Operation]) -> list[Finding]:
    numbers = {NOTHING: _Number(NOTHING, (-inf, -1.0))}
    for operation in own:
        if operation.invocation.f in _WRITES and operation.type != "fail":
            # What nobody knows the end of may take effect at any time from its beginning on.
            ended = operation.ended if operation.is_ok else inf
            value = operation.invocation.value
            numbers[value] = _Number(value, (operation.invocation.i, ended))
    findings = []
    for operation in own:
        completion = operation.completion
        if operation.invocation.f not in _READS or completion is None or not operation.is_ok:
            continue
        number = numbers.get(completion.value)
        if number is None or number.commit[0] > completion.i:
            text = f"{name} was told as {completion.value}, which nobody had committed"
            findings.append(Finding("C17", text, completion.i))
            continue
        number.fetches.append((operation.invocation.i, completion.i))
    return findings + _check_spans(name, list(numbers.values()))


def _check_spans(name: str, numbers: Sequence[_Number]) -> list[Finding]:
    """A commit whose fate is unknown and that nobody saw may never have happened."""
    spans = [one.span for one in numbers if one.fetches or one.commit[1] < inf]
    certain = sorted((one for one in spans if one.is_certain), key=lambda one: one.first_end)
    uncertain = [one for one in spans if not one.is_certain]
    findings = []
    for index, one in enumerate(certain):
        for other in certain[index + 1 :]:
            if other.first_end >= one.last_begin:
                break
            findings.append(_overlap(name, one, other))
        for other in uncertain:
            if one.first_end < other.last_begin and other.first_end < one.last_begin:
                findings.append(_overlap(name, one, other))
    return findings


def _overlap(name: str, one: _Span, other: _Span) -> Finding:
    text = (
        f"{name} was {one.value} from entry {one.first_end} to {one.last_begin}, "
        f"and {other.value} within that time"
    )
    return Finding("C17", text, int(one.last_begin))


def check_generations(entries: Sequence[Entry]) -> list[Finding]:
    """G1: the generations that members of a group are told never fall, and each has one leader."""
    entries = _lasting(entries)
    findings = []
    leaders: dict[tuple[object, object], str] = {}
    newest = _Newest()
    for operation in _completed(entries, "join"):
        newest.advance_to(operation.invocation.i)
        completion = operation.completion
        assert completion is not None
        assert completion.gen is not None
        group, generation = completion.group, completion.gen
        if generation < newest.of(group):
            text = f"{group} is told generation {generation} after {newest.of(group)}"
            findings.append(Finding("G1", text, completion.i))
        leader = completion.value[1]
        if leaders.setdefault((group, generation), leader) != leader:
            text = f"{group} has two leaders in generation {generation}"
            findings.append(Finding("G1", text, completion.i))
        newest.add(completion)
    return findings


def check_shares(entries: Sequence[Entry]) -> list[Finding]:
    """G2: one assignment per generation: shares are as the leader handed them in, the same
    whenever they are told, and no partition is in two of them."""
    entries = _lasting(entries)
    findings = []
    handed_in: dict[tuple[object, object], list[list[object]]] = {}
    shares: dict[tuple[object, object], dict[str, list[tuple[str, int]]]] = {}
    for entry in entries:
        if entry.f != "sync":
            continue
        key = (entry.group, entry.gen)
        if entry.type == "invoke":
            handed_in.setdefault(key, []).extend([one, _sorted(tps)] for one, tps in entry.value)
        elif entry.type == "ok":
            member_id, share = entry.value[0], _sorted(entry.value[1])
            name = f"{member_id} of {entry.group} in generation {entry.gen}"
            if share and [member_id, share] not in handed_in.get(key, []):
                text = f"{name} has the share {share}, which no leader gave it"
                findings.append(Finding("G2", text, entry.i))
            told = shares.setdefault(key, {})
            if told.setdefault(member_id, share) != share:
                text = f"{name} has the share {share}, and had {told[member_id]}"
                findings.append(Finding("G2", text, entry.i))
            for other, others in told.items():
                both = [tp for tp in share if other != member_id and tp in others]
                if both:
                    text = f"{name} shares {both} with {other}"
                    findings.append(Finding("G2", text, entry.i))
    return findings


def check_fences(entries: Sequence[Entry]) -> list[Finding]:
    """G3, C18: when somebody has been told of a newer generation, the older ones commit nothing.
    So no two generations own a partition at the same time and both commit."""
    entries = _lasting(entries)
    findings = []
    newest = _Newest()
    for operation in _completed(entries, "join"):
        assert operation.completion is not None
        newest.add(operation.completion)
    for operation in _completed(entries, "commit"):
        invocation = operation.invocation
        newest.advance_to(invocation.i)
        generation = -1 if invocation.gen is None else invocation.gen
        if 0 <= generation < newest.of(invocation.group):
            text = (
                f"{invocation.group} {invocation.tp} took a commit of generation {generation} "
                f"after {newest.of(invocation.group)} had begun"
            )
            findings.append(Finding("G3", text, invocation.i))
    return findings


def _forgetful(entries: Sequence[Entry]) -> list[str | None]:
    """Groups that the node may forget while they have no members."""
    return [entry.group for entry in entries if entry.f == "forgets"]


def _lasting(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Without those of groups that may be forgotten: their generations may begin anew."""
    forgetful = _forgetful(entries)
    return [entry for entry in entries if entry.group not in forgetful] if forgetful else entries


class _Newest:
    """The newest generation that somebody has been told of, by group, as time goes on."""

    def __init__(self) -> None:
        self._told: list[Entry] = []
        self._newest: dict[object, int] = {}

    def add(self, joined: Entry) -> None:
        self._told.append(joined)

    def advance_to(self, index: int) -> None:
        """Take in what was told before entry `index`; indexes never fall."""
        self._told.sort(key=lambda entry: entry.i, reverse=True)
        while self._told and self._told[-1].i < index:
            entry = self._told.pop()
            assert entry.gen is not None
            self._newest[entry.group] = max(self.of(entry.group), entry.gen)

    def of(self, group: object) -> int:
        return self._newest.get(group, -1)


def _completed(entries: Sequence[Entry], f: str) -> list[Operation]:
    """The operations of a kind that were carried out, in order of invocation."""
    own = [entry for entry in entries if entry.f == f]
    return [operation for operation in operations(own) if operation.is_ok]


def _sorted(share: Sequence[Sequence[object]]) -> list[tuple[str, int]]:
    return sorted((str(topic), int(str(number))) for topic, number in share)

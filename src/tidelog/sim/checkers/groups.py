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

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.history import Entry, Operation, operations

NOTHING = -1
"""What a fetch is told when nothing was ever committed."""


@dataclass(slots=True)
class _Number:
    """A commit and the fetches that saw it, as `(invoked, ended)` each."""

    value: int
    commit: tuple[float, float]
    fetches: list[tuple[float, float]] = field(default_factory=list)

    @property
    def first_end(self) -> float:
        return min(ended for _, ended in (self.commit, *self.fetches))

    @property
    def last_begin(self) -> float:
        return max(invoked for invoked, _ in (self.commit, *self.fetches))

    @property
    def is_certain(self) -> bool:
        """It was the register's for a span of time, not just at some moment."""
        return self.first_end < self.last_begin


def check_registers(entries: Sequence[Entry]) -> list[Finding]:
    """C17, for every group and partition of the history."""
    registers: dict[tuple[object, object], list[Operation]] = {}
    for operation in operations(entries):
        invocation = operation.invocation
        if invocation.f in ("commit", "fetch_offset"):
            registers.setdefault((invocation.group, invocation.tp), []).append(operation)
    findings = []
    for (group, tp), own in registers.items():
        findings += _check_register(f"{group} {tp}", own)
    return findings


def _check_register(name: str, own: Sequence[Operation]) -> list[Finding]:
    numbers = {NOTHING: _Number(NOTHING, (-inf, -1.0))}
    for operation in own:
        if operation.invocation.f == "commit" and operation.type != "fail":
            # What nobody knows the end of may take effect at any time from its beginning on.
            ended = operation.ended if operation.is_ok else inf
            value = operation.invocation.value
            numbers[value] = _Number(value, (operation.invocation.i, ended))
    findings = []
    for operation in own:
        completion = operation.completion
        if operation.invocation.f != "fetch_offset" or completion is None or not operation.is_ok:
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
    seen = [one for one in numbers if one.fetches or one.commit[1] < inf]
    certain = sorted((one for one in seen if one.is_certain), key=lambda one: one.first_end)
    findings = []
    for index, one in enumerate(certain):
        for other in certain[index + 1 :]:
            if other.first_end >= one.last_begin:
                break
            findings.append(_overlap(name, one, other))
        for other in seen:
            if other.is_certain:
                continue
            if one.first_end < other.last_begin and other.first_end < one.last_begin:
                findings.append(_overlap(name, one, other))
    return findings


def _overlap(name: str, one: _Number, other: _Number) -> Finding:
    text = (
        f"{name} was {one.value} from entry {one.first_end} to {one.last_begin}, "
        f"and {other.value} within that time"
    )
    return Finding("C17", text, int(one.last_begin))

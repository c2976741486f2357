"""C22 for logs that are shortened by age or by what groups have read, and G6 for offsets.

The history notes what a node's wall clock shows at the begin and after each jump ("clock"), and how
long the clock must be steady until the node believes it ("steady"): from that follows how old, at
the most, a node may have believed anything to be (`believed.py`). "retained" notes a partition's
rule: its `retention.ms`, or the groups that must have read what goes; "forgets" a group whose
offsets go, and after how long.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.sim.checkers.believed import Believed
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.clock import EPOCH_MS
from tidelog.sim.history import Entry, Operation, operations

NOTHING = -1


def check_retention(entries: Sequence[Entry]) -> list[Finding]:
    """C22: what is gone from the begin of a log was old enough, or read by all who were to."""
    findings: list[Finding] = []
    for rule in entries:
        if rule.f == "retained":
            own = [one for one in entries if one.tp == rule.tp]
            kind, value = rule.value
            if kind == "age":
                findings += _check_age(entries, own, retention_ms=value)
            else:
                findings += _check_read(own, groups=value)
    return findings


def _check_age(
    entries: Sequence[Entry], own: Sequence[Entry], *, retention_ms: int
) -> list[Finding]:
    findings = []
    believed = Believed(entries)
    written: list[tuple[int, int]] = []
    for operation in operations([one for one in own if one.f == "put"]):
        completion = operation.completion
        if completion is not None and operation.is_ok:
            for index, (_, number, _) in enumerate(operation.invocation.value):
                written.append((completion.value + index, number))
    for operation in _starts(own):
        completion = operation.completion
        assert completion is not None
        latest_ms = believed.latest_ms(until=completion)
        for offset, number in written:
            is_old = latest_ms - (EPOCH_MS + number) > retention_ms
            if offset < completion.value and not is_old:
                text = f"{completion.tp} starts at {completion.value}: {offset} was not old enough"
                findings.append(Finding("C22", text, completion.i))
                break
    return findings


def _check_read(own: Sequence[Entry], *, groups: Sequence[str]) -> list[Finding]:
    """Nothing goes that one of the groups has not said to have read, and whoever comes back to
    where it was finds the log there."""
    findings = []
    commits = operations([one for one in own if one.f == "work_commit"])
    for operation in _starts(own):
        completion = operation.completion
        assert completion is not None
        for group in groups:
            said = [
                one.invocation.value
                for one in commits
                if one.invocation.group == group and one.invocation.i < completion.i
            ]
            if completion.value > max(said, default=0):
                text = f"{completion.tp} starts at {completion.value}, unread by {group}"
                findings.append(Finding("C22", text, completion.i))
    started = [(one.completion.i, one.completion.value) for one in _starts(own) if one.completion]
    for operation in operations([one for one in own if one.f == "work_offset"]):
        completion = operation.completion
        if completion is None or not operation.is_ok:
            continue
        start = max((at for i, at in started if i < operation.invocation.i), default=0)
        if completion.value < start:
            text = (
                f"{completion.group} is at {completion.value} of {completion.tp}: gone to {start}"
            )
            findings.append(Finding("C22", text, completion.i))
    return findings


def _starts(own: Sequence[Entry]) -> list[Operation]:
    """Those who were told where the log starts."""
    found = operations([one for one in own if one.f == "find_start"])
    return [operation for operation in found if operation.is_ok]


def check_live_offsets(entries: Sequence[Entry]) -> list[Finding]:
    """G6: what a group has committed is not forgotten while the group has members.

    Whoever is welcome twice under one id was a member all the while: an id that was given up never
    comes back. So a commit, and a fetch that finds nothing, must not both lie in such a span.
    """
    findings = []
    spans = _live_spans(entries)
    registers: dict[tuple[object, object], list[Operation]] = {}
    forgetful = [entry.group for entry in entries if entry.f == "forgets"]
    for operation in operations([one for one in entries if one.f in ("commit", "fetch_offset")]):
        invocation = operation.invocation
        if invocation.group in forgetful and operation.is_ok:
            registers.setdefault((invocation.group, invocation.tp), []).append(operation)
    for (group, tp), own in registers.items():
        commits = [one for one in own if one.invocation.f == "commit"]
        for fetch in own:
            told = fetch.completion
            if fetch.invocation.f != "fetch_offset" or told is None or told.value != NOTHING:
                continue
            for begin, end in spans.get(group, ()):
                if any(begin <= one.ended < fetch.invocation.i for one in commits) and told.i < end:
                    text = f"{group} has forgotten its offset of {tp}, though it had members"
                    findings.append(Finding("G6", text, told.i))
                    break
    return findings


def check_young_offsets(entries: Sequence[Entry]) -> list[Finding]:
    """G7: no offset is forgotten that is younger than `offsets.retention.minutes`, by all clocks
    that a node may have believed since it was committed."""
    findings = []
    believed = Believed(entries)
    retentions = {entry.group: entry.value for entry in entries if entry.f == "forgets"}
    commits: dict[tuple[object, object], Operation] = {}
    for operation in operations([one for one in entries if one.f in ("commit", "fetch_offset")]):
        invocation, told = operation.invocation, operation.completion
        retention_ms = retentions.get(invocation.group)
        if retention_ms is None or told is None or not operation.is_ok:
            continue
        register = (invocation.group, invocation.tp)
        if invocation.f == "commit":
            commits[register] = operation
            continue
        commit = commits.get(register)
        if told.value != NOTHING or commit is None or commit.ended >= invocation.i:
            continue
        begun, ended = commit.invocation, commit.completion
        assert ended is not None, "it is known to be committed"
        written_ms = believed.earliest_ms(since=begun, until=ended)
        if believed.latest_ms(until=told, since=begun) - written_ms < retention_ms:
            text = f"{invocation.group} has forgotten its offset of {invocation.tp} too soon"
            findings.append(Finding("G7", text, told.i))
    return findings


def _live_spans(entries: Sequence[Entry]) -> dict[object, list[tuple[int, int]]]:
    """By group, from when to when it certainly had members; spans that overlap are one."""
    seen: dict[tuple[object, object], tuple[int, int]] = {}
    kinds = ("sync", "beat", "commit", "reconcile")
    for operation in operations([one for one in entries if one.f in kinds]):
        completion = operation.completion
        if completion is None or not operation.is_ok or completion.member is None:
            continue
        if operation.invocation.gen is None or operation.invocation.gen < 0:
            continue
        key = (completion.group, completion.member)
        begin, end = seen.get(key, (completion.i, operation.invocation.i))
        seen[key] = (min(begin, completion.i), max(end, operation.invocation.i))
    spans: dict[object, list[tuple[int, int]]] = {}
    for (group, _), (begin, end) in sorted(seen.items(), key=lambda item: item[1]):
        own = spans.setdefault(group, [])
        if own and begin <= own[-1][1]:
            own[-1] = (own[-1][0], max(own[-1][1], end))
        elif begin < end:
            own.append((begin, end))
    return spans

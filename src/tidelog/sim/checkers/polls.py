"""C7, C8, C12: a consumer sees every record, in order, and without needless delay."""

from __future__ import annotations

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import View


def check_within_polls(view: View) -> list[Finding]:
    """C7 int-poll-skip, int-nonmonotonic-poll: inside one poll, offsets grow by one."""
    findings = []
    for read in view.reads:
        for (before, _), (after, _) in zip(read.records, read.records[1:], strict=False):
            if after != before + 1:
                text = f"{view} process {read.proc} got offset {after} right after {before}"
                findings.append(Finding("C7", text, read.ended))
    return findings


def check_between_polls(view: View) -> list[Finding]:
    """C8 poll-skip, nonmonotonic-poll: a poll goes on where the consumer's last one ended."""
    expected: dict[int, int] = {}
    findings = []
    for read in view.reads:
        if not read.records:
            continue
        first, last = read.records[0][0], read.records[-1][0]
        wanted = expected.get(read.proc, read.position)
        if first != wanted:
            word = "skipped to" if first > wanted else "went back to"
            text = f"{view} process {read.proc} {word} offset {first}; next was {wanted}"
            findings.append(Finding("C8", text, read.ended))
        expected[read.proc] = last + 1
    return findings


def check_recency(view: View) -> list[Finding]:
    """C12 recency: what was acknowledged before a poll began is not kept from it.

    With one replica there is no excuse at all; a poll that brought records of other partitions
    may have had no room for this one.
    """
    acknowledged = sorted(
        (int(send.ended), send.offset) for send in view.sends if send.type == "ok"
    )
    findings = []
    end, index = -1, 0
    for read in sorted(view.reads, key=lambda r: r.invoked):
        while index < len(acknowledged) and acknowledged[index][0] < read.invoked:
            end = max(end, acknowledged[index][1])
            index += 1
        if not read.records and read.is_alone and read.position <= end:
            text = (
                f"{view} process {read.proc} polled from {read.position} and got nothing, "
                f"though {end} had been acknowledged"
            )
            findings.append(Finding("C12", text, read.ended))
    return findings


def worst_lag_ms(view: View) -> int:
    """The longest time from an acknowledgement to the first read of its value."""
    seen: dict[int, int] = {}
    for read in view.reads:
        for _, value in read.records:
            seen[value] = min(seen.get(value, read.ended_ns), read.ended_ns)
    lags = [seen[s.value] - s.ended_ns for s in view.sends if s.type == "ok" and s.value in seen]
    return max(lags, default=0) // 1_000_000

"""C1, C2, C5: one value per offset, one offset per value, and only values that were sent."""

from __future__ import annotations

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import View


def check_inconsistent_offsets(view: View) -> list[Finding]:
    """C1 inconsistent-offsets: what an offset holds is the same in every answer and every read."""
    holds: dict[int, int] = {}
    findings = []
    for offset, value, at in view.sightings():
        known = holds.setdefault(offset, value)
        if known != value:
            text = f"{view} offset {offset} holds both {known} and {value}"
            findings.append(Finding("C1", text, at))
    return findings


def check_phantoms(view: View) -> list[Finding]:
    """C1: nobody reads a value that was not sent before the read ended."""
    sent = {send.value: send.invoked for send in view.sends}
    findings = []
    for read in view.reads:
        for offset, value in read.records:
            is_known = value in view.earlier or sent.get(value, read.ended) < read.ended
            if not is_known:
                text = f"{view} offset {offset} was read as {value}, which nobody had sent there"
                findings.append(Finding("C1", text, read.ended))
    return findings


def check_failed_values_stay_unseen(view: View) -> list[Finding]:
    """C5 aborted read, without transactions: a send that failed for certain has no effect."""
    failed = {send.value: send for send in view.sends if send.type == "fail"}
    return [
        Finding(
            "C5",
            f"{view} offset {offset} was read as {value}, whose send failed "
            f"with {failed[value].err}",
            read.ended,
        )
        for read in view.reads
        for offset, value in read.records
        if value in failed
    ]


def check_duplicates(view: View) -> list[Finding]:
    """C2 duplicate: an idempotent producer's value is at one offset, however often it was tried."""
    pids = {send.value: send.pid for send in view.sends}
    return [
        Finding("C2", f"{view} holds {value} of producer {pids[value]} at offsets {offsets}")
        for value, offsets in view.offsets_of_values().items()
        if len(offsets) > 1 and pids.get(value, -1) >= 0
    ]


def count_plain_duplicates(view: View) -> int:
    """Values of plain producers at several offsets: their clients' business, counted only."""
    pids = {send.value: send.pid for send in view.sends}
    return sum(
        len(offsets) - 1
        for value, offsets in view.offsets_of_values().items()
        if pids.get(value, -1) < 0
    )

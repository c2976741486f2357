"""C21: what was once read stays what it is, and the log's start only moves forward."""

from __future__ import annotations

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import EARLIEST, View


def check_stable_bytes(view: View) -> list[Finding]:
    """C21: the batch at an offset has the same bytes in every read."""
    known: dict[int, int] = {}
    findings = []
    for read in view.reads:
        for base_offset, digest in read.digests:
            if known.setdefault(base_offset, digest) != digest:
                text = f"{view} the batch at offset {base_offset} has changed its bytes"
                findings.append(Finding("C21", text, read.ended))
    return findings


def check_log_start(view: View) -> list[Finding]:
    """C21: the log start offset never decreases in real time."""
    starts = sorted(
        (int(look.ended), look.offset)
        for look in view.lookups
        if look.type == "ok" and look.asked == EARLIEST
    )
    findings = []
    highest, index = -1, 0
    for look in sorted(view.lookups, key=lambda one: one.invoked):
        while index < len(starts) and starts[index][0] < look.invoked:
            highest = max(highest, starts[index][1])
            index += 1
        if look.type == "ok" and look.asked == EARLIEST and look.offset < highest:
            text = f"{view} starts at {look.offset} it was told, but had started at {highest}"
            findings.append(Finding("C21", text, look.invoked))
    return findings

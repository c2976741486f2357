"""C11, C20, C23: what the node says about a log's bounds and times is true."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import LATEST, Lookup, View


def check_end_offsets(view: View) -> list[Finding]:
    """C11: the end offset covers all that was acknowledged or read before, and never decreases."""
    proofs = _ends_proven(view)
    proofs += [
        (int(look.ended), look.offset, "answered as the end")
        for look in view.lookups
        if look.type == "ok" and look.asked == LATEST
    ]
    proofs.sort()
    findings = []
    end, why, index = 0, "", 0
    for look in sorted(view.lookups, key=lambda one: one.invoked):
        while index < len(proofs) and proofs[index][0] < look.invoked:
            if proofs[index][1] > end:
                _, end, why = proofs[index]
            index += 1
        if look.type == "ok" and look.asked == LATEST and look.offset < end:
            text = f"{view} ends at {look.offset} it was told, but {end} was {why} before"
            findings.append(Finding("C11", text, look.invoked))
    return findings


def _ends_proven(view: View) -> list[tuple[int, int, str]]:
    proofs = [
        (int(send.ended), send.offset + 1, "acknowledged as the end")
        for send in view.sends
        if send.type == "ok"
    ]
    proofs += [
        (read.ended, read.records[-1][0] + 1, "read as the end")
        for read in view.reads
        if read.records
    ]
    return proofs


class _Line:
    """Offsets in some order, and how late the records are up to each."""

    def __init__(self, offsets: list[int], holds: dict[int, int]) -> None:
        self.offsets = offsets
        self._latest = list(accumulate((holds[offset] for offset in offsets), max))

    def first_from(self, timestamp: int, *, among: int) -> int | None:
        """The first whose record is that late, if it is one of the first so many."""
        place = bisect_left(self._latest, timestamp)
        return self.offsets[place] if place < among else None


def check_timestamps(view: View) -> list[Finding]:
    """C23: ListOffsets(ts) is the first offset with a timestamp of at least ts."""
    lookups = [look for look in view.lookups if look.type == "ok" and look.asked >= 0]
    if not lookups:
        return []
    timestamps = {send.value: send.timestamp for send in view.sends}
    timestamps.update({value: send.timestamp for value, send in view.earlier.items()})
    holds = {offset: timestamps.get(value, -1) for offset, value, _ in view.sightings()}
    proofs = sorted(
        (at, offset) for offset, _, at in view.sightings() if not view.is_damaged(offset)
    )
    by_offset = _Line(sorted({offset for _, offset in proofs}), holds)
    by_time = _Line([offset for _, offset in proofs], holds)
    findings = []
    for look in lookups:
        if look.offset >= 0:
            before = bisect_left(by_offset.offsets, look.offset)
            missed = by_offset.first_from(look.asked, among=before)
        else:
            before = bisect_left(proofs, (look.invoked, -1))
            missed = by_time.first_from(look.asked, among=before)
        findings += _check_lookup(view, look, holds=holds, missed=missed)
    return findings


def _check_lookup(
    view: View, look: Lookup, *, holds: dict[int, int], missed: int | None
) -> list[Finding]:
    """`missed` is an offset before the answer's that would have been right."""
    actual = holds.get(look.offset) if look.offset >= 0 else None
    if actual is not None and (actual < look.asked or actual != look.timestamp):
        text = (
            f"{view} time {look.asked} was found at offset {look.offset} with time "
            f"{look.timestamp}, but the record there has {actual}"
        )
        return [Finding("C23", text, look.invoked)]
    if missed is not None:
        text = (
            f"{view} time {look.asked} was found at {look.offset}, but offset {missed} "
            f"has {holds[missed]} already"
        )
        return [Finding("C23", text, look.invoked)]
    return []


def check_out_of_range(view: View) -> list[Finding]:
    """C20: OFFSET_OUT_OF_RANGE is said only of offsets below the start or above the end."""
    proofs = sorted(_ends_proven(view))
    findings = []
    for error in view.errors:
        if error.err != "OFFSET_OUT_OF_RANGE":
            continue
        end = max((proof[1] for proof in proofs if proof[0] < error.invoked), default=0)
        if 0 <= error.position <= end:
            text = f"{view} offset {error.position} is out of range it was told; the end was {end}"
            findings.append(Finding("C20", text, error.invoked))
    return findings


def check_offsets_of_errors(view: View) -> list[Finding]:
    """C20 spurious zero offset: an error carries -1 where an offset would stand."""
    findings = [
        Finding("C20", f"{view} error {send.err} carries offset {send.offset}", send.invoked)
        for send in view.sends
        if send.type != "ok" and send.err is not None and send.offset != -1
    ]
    findings += [
        Finding("C20", f"{view} error {look.err} carries offset {look.offset}", look.invoked)
        for look in view.lookups
        if look.type != "ok" and look.err is not None and look.offset != -1
    ]
    findings += [
        Finding("C20", f"{view} error {e.err} carries watermark {e.high_watermark}", e.invoked)
        for e in view.errors
        if e.high_watermark != -1
    ]
    return findings

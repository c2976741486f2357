"""C3, C4: what was acknowledged is there."""

from __future__ import annotations

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import Send, View


def check_lost_writes(view: View) -> list[Finding]:
    """C3 lost-write: an acknowledged value at an offset that some reader has passed was read.

    Passed by one reader, from below to above: readers that begin in the middle have skipped the
    beginning rightly.
    """
    passed: dict[int, tuple[int, int]] = {}
    for read in view.reads:
        if read.records:
            first, _ = passed.get(read.proc, (read.position, 0))
            passed[read.proc] = (first, read.records[-1][0])
    ranges = list(passed.values())
    return [
        Finding(
            "C3", f"{view} lost {send.value}, acknowledged at offset {send.offset}", send.invoked
        )
        for send in _unread(view)
        if any(first <= send.offset <= last for first, last in ranges)
    ]


def check_unseen(view: View) -> list[Finding]:
    """C4 unseen: after the final reads to the end, every acknowledged value has been read."""
    if not (view.is_last and view.has_final_reads):
        return []
    return [
        Finding(
            "C4",
            f"{view} never showed {send.value}, acknowledged at offset {send.offset}",
            send.invoked,
        )
        for send in _unread(view)
    ]


def _unread(view: View) -> list[Send]:
    seen = {value for read in view.reads for _, value in read.records}
    return [
        send
        for send in view.sends
        if send.type == "ok"
        and send.offset >= 0
        and send.value not in seen
        and not view.is_damaged(send.offset)
    ]

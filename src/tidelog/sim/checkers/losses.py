"""C3, C4: what was acknowledged is there."""

from __future__ import annotations

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import Send, View


def check_lost_writes(view: View) -> list[Finding]:
    """C3 lost-write: an acknowledged value below the highest offset read was read by somebody.

    Only where somebody read from the start: a consumer that began in the middle has skipped the
    beginning rightly.
    """
    read_from = min((read.position for read in view.reads if read.records), default=0)
    highest = max((read.records[-1][0] for read in view.reads if read.records), default=-1)
    return [
        Finding(
            "C3", f"{view} lost {send.value}, acknowledged at offset {send.offset}", send.invoked
        )
        for send in _unread(view)
        if read_from <= send.offset <= highest
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

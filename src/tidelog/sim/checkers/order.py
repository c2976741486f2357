"""C9, C10: the log's order is the order of time, for one producer and between producers."""

from __future__ import annotations

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import View


def check_send_order(view: View) -> list[Finding]:
    """C9 nonmonotonic-send: a producer's successive sends lie at growing offsets."""
    offsets = _first_offsets(view)
    last: dict[int, tuple[int, int]] = {}
    findings = []
    for send in view.sends:
        offset = offsets.get(send.value)
        if offset is None:
            continue
        before = last.get(send.proc)
        if before is not None and offset <= before[0]:
            text = (
                f"{view} process {send.proc} sent {before[1]}, then {send.value}, "
                f"but they lie at {before[0]} and {offset}"
            )
            findings.append(Finding("C9", text, send.invoked))
        last[send.proc] = (offset, send.value)
    return findings


def check_real_time_order(view: View) -> list[Finding]:
    """C10: A acknowledged before B was invoked, so A lies before B, whoever sent them."""
    offsets = _first_offsets(view)
    acknowledged = sorted((s.ended, s.offset, s.value) for s in view.sends if s.type == "ok")
    findings = []
    highest, highest_value, index = -1, -1, 0
    for send in sorted(view.sends, key=lambda s: s.invoked):
        while index < len(acknowledged) and acknowledged[index][0] < send.invoked:
            _, offset, value = acknowledged[index]
            if offset > highest:
                highest, highest_value = offset, value
            index += 1
        own = offsets.get(send.value)
        if own is not None and own <= highest and send.value != highest_value:
            text = (
                f"{view} {highest_value} was acknowledged at {highest} before {send.value} was "
                f"sent, which lies at {own}"
            )
            findings.append(Finding("C10", text, send.invoked))
    return findings


def _first_offsets(view: View) -> dict[int, int]:
    return {value: min(offsets) for value, offsets in view.offsets_of_values().items()}

"""Where to begin reading: `--from beginning | end | OFFSET | a time | so long ago`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

_OFFSET = re.compile(r"\d{1,18}")
_AGO = re.compile(r"(\d{1,18})(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class StartPoint:
    """`number` is an offset or a Unix time in milliseconds, as `kind` says."""

    kind: Literal["beginning", "end", "offset", "time"]
    number: int = 0


def parse_start(text: str, *, now_ms: int) -> StartPoint:
    """What the user means, or `ValueError` with a sentence."""
    if text == "beginning":
        return StartPoint("beginning")
    if text == "end":
        return StartPoint("end")
    if _OFFSET.fullmatch(text):
        return StartPoint("offset", int(text))
    if ago := _AGO.fullmatch(text):
        return _time(now_ms - int(ago[1]) * _UNIT_MS[ago[2]])
    try:
        return _time(int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError(
            "must be beginning, end, an offset, a time as 2030-01-31T12:00:00, "
            f"or so long ago as 10m or 2h: not {text!r}"
        ) from None


def _time(timestamp_ms: int) -> StartPoint:
    """No record is older than 1970; negative times mean other things in the protocol."""
    return StartPoint("time", max(0, timestamp_ms))

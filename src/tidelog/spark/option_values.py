"""How the text of one option becomes a value; what can't is an `OptionError` that says why."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tidelog.spark.errors import OptionError

PartitionNumbers = Mapping[str, Mapping[int, int]]
"""A number (an offset, a timestamp) by topic and partition."""

_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_UNIT_MS = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_UNIT_MS["d"] = 86_400_000


def parse_count(name: str, text: str) -> int:
    """A whole number above 0."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise OptionError(f"{name} must be a whole number above 0, not {text!r}")
    return int(text)


def parse_timestamp_ms(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise OptionError(f"{name} must be milliseconds since 1970, not {text!r}")
    return int(text)


def parse_switch(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise OptionError(f"{name} must be true or false, not {text!r}")
    return word == "true"


def parse_word(name: str, text: str, allowed: tuple[str, ...]) -> str:
    word = text.strip().lower()
    if word not in allowed:
        raise OptionError(f"{name} must be {' or '.join(allowed)}, not {text!r}")
    return word


def parse_duration_ms(name: str, text: str) -> int:
    """`15m`, `30s`, `500ms`, `2h`; a bare number is milliseconds, as in Spark."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise OptionError(f"{name} must be a duration such as 30s or 15m, not {text!r}")
    return int(match[1]) * _UNIT_MS[match[2]]


def parse_names(name: str, text: str) -> tuple[str, ...]:
    """Names separated by commas, each once, in the order given."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise OptionError(f"{name} must name at least one, separated by commas")
    return names


def parse_pattern(name: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"{name} is no regular expression: {error}: {text!r}") from None
    return text


def parse_assignment(name: str, text: str) -> dict[str, tuple[int, ...]]:
    """`{"orders": [0, 1]}`."""
    example = '{"orders": [0, 1]}'
    document = _parse_object(name, text, example)
    for topic, numbers in document.items():
        is_list = isinstance(numbers, list) and numbers
        if not is_list or not all(_is_whole(each) and each >= 0 for each in numbers):
            raise OptionError(f"{name}: the partitions of {topic!r} must be as in {example}")
    return {topic: tuple(sorted(set(numbers))) for topic, numbers in document.items()}


def parse_partition_numbers(name: str, text: str, *, least: int) -> PartitionNumbers:
    """`{"orders": {"0": 23, "1": -1}}`, with no number below `least`."""
    example = '{"orders": {"0": 23}}'
    document = _parse_object(name, text, example)
    found: dict[str, dict[int, int]] = {}
    for topic, rows in document.items():
        if not isinstance(rows, dict) or not rows:
            raise OptionError(f"{name}: {topic!r} must be as in {example}")
        for partition, number in rows.items():
            if not partition.isdecimal() or not _is_whole(number) or number < least:
                raise OptionError(
                    f"{name}: partition {partition!r} of {topic!r} can't be {number!r}: "
                    f"write it as in {example}"
                )
            found.setdefault(topic, {})[int(partition)] = number
    return found


def _parse_object(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(f"{name} is no JSON such as {example}: {error}") from None
    if not isinstance(document, dict) or not document:
        raise OptionError(f"{name} must be JSON such as {example}, not {text!r}")
    return document


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

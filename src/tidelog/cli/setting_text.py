"""Settings for people: what a number means, what may be set, where a value comes from."""

from __future__ import annotations

from tidelog.cli.output import duration_text
from tidelog.model.setting import INT32_MAX, INT64_MAX
from tidelog.model.settings import SETTINGS, Setting

_BY_NAME = {setting.name: setting for setting in SETTINGS}

_SOURCES = {
    "dynamic topic config": "topic",
    "group config": "group",
    "dynamic broker config": "node",
    "dynamic default broker config": "node",
    "static broker config": "node",
    "default config": "default",
}

_SECONDS = {"ms": 0.001, "minutes": 60.0}
_BINARY = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def source_word(source: str) -> str:
    """Whose value it is: the topic's or group's own, the node's, or the default."""
    return _SOURCES.get(source, source)


def meaning(name: str, value: str | None) -> str:
    """What the text of a value says, where its number does not speak for itself; else nothing."""
    setting = _BY_NAME.get(name)
    if setting is None or value is None or not isinstance(setting.default, int | float):
        return ""
    try:
        number = float(value)
    except ValueError:
        return ""
    if (
        (number == -1 and setting.unit)
        or number >= INT64_MAX
        or (not setting.unit and number >= INT32_MAX)
    ):
        return "no limit"
    if setting.unit in _SECONDS and (number >= 1000 or setting.unit != "ms"):
        return duration_text(number * _SECONDS[setting.unit])
    if setting.unit == "bytes":
        return _binary_text(int(number))
    return ""


def _binary_text(size: int) -> str:
    """Most are powers of two, so their units are, too. Small ones speak for themselves."""
    for unit, unit_size in _BINARY:
        if size >= unit_size:
            return f"{size / unit_size:.1f}".removesuffix(".0") + f" {unit}"
    return ""


def bounds(setting: Setting) -> str:
    """What may be set, in a few words."""
    if setting.choices:
        joined = ", ".join(setting.choices)
        return f"some of {joined}" if setting.is_list else joined
    if isinstance(setting.default, bool):
        return "true, false"
    low = "" if setting.low is None else _number(setting.low)
    has_high = setting.high is not None and setting.high < INT32_MAX
    if has_high and setting.high is not None:
        return f"{low} to {_number(setting.high)}"
    return f"at least {low}" if low else setting.kind


def _number(number: float) -> str:
    return f"{number:g}" if abs(number) < 1e6 else f"{number:.0f}"


def default_text(setting: Setting) -> str:
    """The default, as it would be set."""
    return setting.format(setting.default)

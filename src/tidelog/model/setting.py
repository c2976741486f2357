"""What a setting is: a row of a table, and how its text becomes a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Scope = Literal["topic", "node", "group"]
Value = int | float | str | bool

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_TRIMMED = "".join(map(chr, range(33)))
"""What Kafka's tools drop around a value: the space and all control characters of ASCII."""

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


class InvalidSetting(ValueError):
    """A setting's name or value is wrong; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A row. `low`/`high` bound numbers, `choices` strings; with `is_list` several of them may be
    given, separated by commas, with `may_be_empty` also none; `pattern` is what each must match,
    and `alone` the one that is given without others.
    `live`: a change works at once, without a restart. `is_obeyed` is false for a setting of Kafka's
    that is accepted, kept and shown, and changes nothing here."""

    name: str
    scope: Scope
    default: Value
    doc: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_list: bool = False
    pattern: str = ""
    alone: str = ""
    live: bool = False
    may_be_empty: bool = False
    is_obeyed: bool = True

    def parse(self, text: str) -> Value:
        """The typed value of `text`, or `InvalidSetting` with a sentence for the user."""
        text = text.strip(_TRIMMED)
        if isinstance(self.default, bool):
            return self._parse_bool(text)
        if isinstance(self.default, int):
            if not _WHOLE.fullmatch(text):
                raise InvalidSetting(f"{self.name} must be a whole number: not {text!r}")
            return self._bounded(text, int, "a whole number")
        if isinstance(self.default, float):
            if not _DECIMAL.fullmatch(text):
                raise InvalidSetting(f"{self.name} must be a number: not {text!r}")
            return self._bounded(text, float, "a number")
        self._check_alone(text)
        return self._parse_text(text)

    def parse_recorded(self, text: str) -> Value:
        """As `parse`, for a value the metadata log has: earlier releases also accepted numbers with
        underscores and with digits outside ASCII, and what is to be `alone` with others."""
        if isinstance(self.default, str):
            return self._parse_text(text.strip(_TRIMMED))
        if isinstance(self.default, bool):
            return self.parse(text)
        if isinstance(self.default, int):
            return self._bounded(text, int, "a whole number")
        return self._bounded(text, float, "a number")

    def normalized(self, text: str) -> str:
        """The text of the same value as Kafka's tools write it, or `InvalidSetting`."""
        return self.format(self.parse(text))

    @property
    def kind(self) -> str:
        """Of what kind its values are, in a word."""
        if self.is_list:
            return "list"
        names = {bool: "boolean", int: "integer", float: "number", str: "string"}
        return names[type(self.default)]

    def format(self, value: Value) -> str:
        """As Kafka's tools write it: the reverse of `parse`."""
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _parse_text(self, text: str) -> str:
        if self.may_be_empty and not text:
            return ""
        given = [part.strip() for part in text.split(",")] if self.is_list else [text]
        if self.pattern:
            self._check_pattern(given)
        for part in given:
            if self.choices and part not in self.choices:
                raise InvalidSetting(
                    f"{self.name} must be {'some' if self.is_list else 'one'} of "
                    f"{', '.join(self.choices)}: not {part!r}"
                )
        return ",".join(given)

    def _check_alone(self, text: str) -> None:
        given = [part for part in (part.strip() for part in text.split(",")) if part]
        if self.alone in given and len(given) > 1:
            raise InvalidSetting(f"{self.name} is {self.alone} alone, or a list without it")

    def _check_pattern(self, given: list[str]) -> None:
        for part in given:
            if not re.fullmatch(self.pattern, part):
                raise InvalidSetting(f"{self.name} can't be {part!r}: {self.doc}")

    def _parse_bool(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise InvalidSetting(f"{self.name} must be true or false: not {text!r}")
        if self.choices and text.lower() not in self.choices:
            raise InvalidSetting(f"{self.name} can't be {text.lower()}: {self.doc}")
        return text.lower() == "true"

    def _bounded(self, text: str, number: type[int] | type[float], noun: str) -> int | float:
        try:
            value = number(text)
        except ValueError:
            raise InvalidSetting(f"{self.name} must be {noun}: not {text!r}") from None
        if self.low is not None and value < self.low:
            raise InvalidSetting(f"{self.name} must be at least {self.low}: not {value}")
        if self.high is not None and value > self.high:
            raise InvalidSetting(f"{self.name} must be at most {self.high}: not {value}")
        if self.pattern:
            self._check_pattern([str(value)])
        return value

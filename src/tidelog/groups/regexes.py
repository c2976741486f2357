"""Which regular expressions a client may make this node match against its topics.

Kafka matches with RE2, whose time is linear in the text whatever the expression. Python's `re` tries
alternatives one after the other, and `(a+)+b` can keep it busy for ever: a client could stop the
node with one heartbeat. So an expression is measured first. Its *degree* is the power of the text's
length that trying everything may cost: 1 for each `*` or `+` in a row, the highest of alternatives,
and without bound for a repetition of repetitions. What RE2 refuses (references back, looking around)
is refused here, too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_LENGTH = 1_000
MAX_DEGREE = 3
"""A topic name has at most 249 characters: 249 to the third, at worst, for a name made for it."""

_UNBOUNDED = 1_000_000
_REPEATS_AT_MOST = re.compile(r"\{(\d*)(,?)(\d*)\}")
_MANY = 10
"""`{0,10}` may be tried in as many ways as `*`."""
_REFUSED_GROUPS = ("(?=", "(?!", "(?<=", "(?<!", "(?P=", "(?(", "(?>")


def is_acceptable(regex: str) -> bool:
    """Valid, short, and quick to match."""
    if len(regex) > MAX_LENGTH:
        return False
    try:
        re.compile(regex)
        return _Measure(regex).degree() <= MAX_DEGREE
    except (re.error, OverflowError, RecursionError, _Refused):
        return False


class _Refused(Exception):
    """Something that RE2 does not have."""


class _Piece(NamedTuple):
    """Of the expression: how dear it is, and where it ends."""

    degree: int
    end: int


class _Measure:
    """Walks over an expression that is known to be valid."""

    def __init__(self, regex: str) -> None:
        self._regex = regex

    def degree(self) -> int:
        return self._alternatives(0).degree

    def _alternatives(self, start: int) -> _Piece:
        """Up to the closing parenthesis, or the end."""
        highest, present, position = 0, 0, start
        while position < len(self._regex) and self._regex[position] != ")":
            if self._regex[position] == "|":
                highest, present, position = max(highest, present), 0, position + 1
                continue
            piece = self._repeated(self._atom(position))
            present, position = present + piece.degree, piece.end
        return _Piece(max(highest, present), position)

    def _atom(self, position: int) -> _Piece:
        regex = self._regex
        if regex[position] == "(":
            if regex.startswith(_REFUSED_GROUPS, position):
                raise _Refused
            inner = self._alternatives(_after_opening(regex, position))
            return _Piece(inner.degree, inner.end + 1)
        if regex[position] == "[":
            return _Piece(0, _after_class(regex, position))
        if regex[position] == "\\":
            if regex[position + 1 : position + 2].isdigit():
                raise _Refused
            return _Piece(0, position + 2)
        return _Piece(0, position + 1)

    def _repeated(self, atom: _Piece) -> _Piece:
        """With the quantifiers that follow it."""
        degree, end = atom
        while end < len(self._regex):
            mark = self._regex[end]
            braces = _REPEATS_AT_MOST.match(self._regex, end) if mark == "{" else None
            if mark in "*+":
                times, end = _UNBOUNDED, end + 1
            elif mark == "?":
                times, end = 1, end + 1
            elif braces is not None:
                times, end = _highest(braces), braces.end()
            else:
                break
            if times > _MANY:
                degree = _UNBOUNDED if degree else 1
            else:
                degree *= max(times, 1)
        return _Piece(degree, end)


def _after_opening(regex: str, position: int) -> int:
    """`(`, `(?:`, `(?i)`, `(?P<name>`, each to where its content begins."""
    if not regex.startswith("(?", position):
        return position + 1
    marks = re.compile(r"\(\?(?:P<\w+>|[a-zA-Z-]*:|[a-zA-Z-]*(?=\)))").match(regex, position)
    if marks is None:
        raise _Refused
    return marks.end()


def _after_class(regex: str, position: int) -> int:
    """A `]` that comes first stands for itself."""
    position += 2 if regex.startswith("[^", position) else 1
    position += regex.startswith("]", position)
    while regex[position] != "]":
        position += 2 if regex[position] == "\\" else 1
    return position + 1


def _highest(braces: re.Match[str]) -> int:
    lowest, comma, highest = braces.groups()
    if not comma:
        return int(lowest or 0)
    return int(highest) if highest else _UNBOUNDED

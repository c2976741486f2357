"""Which regular expressions a client may make this node match against its topics.

Kafka matches with RE2, whose time is linear in the text whatever the expression. Python's `re`
tries one possibility after the other, and `(a+)+b` can keep it busy for ever: a client could stop
the node with one heartbeat. So an expression is measured first: how many ways there may be to match
a name, in bits. A `*` may end anywhere in the name (8 bits), a `?` takes or leaves (1 bit), four
alternatives are 2 bits; what follows each other multiplies, so its bits add up; and a repetition of
anything that can match in more than one way is without bound. What RE2 does not have (references
back, looking around) is refused here, too.
"""

from __future__ import annotations

import re
from math import log2
from typing import NamedTuple

MAX_LENGTH = 1_000
MAX_BITS = 26.0
"""Three `*` and a little more: a fraction of a second, at worst, for a name made for it."""

_STAR_BITS = 8.0
"""A topic name has at most 249 characters."""
_UNBOUNDED = float("inf")
_REPEATS_AT_MOST = re.compile(r"\{(\d*)(,?)(\d*)\}")
_REFUSED_GROUPS = ("(?=", "(?!", "(?<=", "(?<!", "(?P=", "(?(", "(?>")


def is_acceptable(regex: str) -> bool:
    """Valid, short, and quick to match."""
    if len(regex) > MAX_LENGTH:
        return False
    try:
        re.compile(regex)
        return _Measure(regex).bits() <= MAX_BITS
    except (re.error, OverflowError, RecursionError, _Refused):
        return False


class _Refused(Exception):
    """Something that RE2 does not have."""


class _Piece(NamedTuple):
    """Of the expression: in how many ways it may match, and where it ends."""

    bits: float
    end: int


class _Measure:
    """Walks over an expression that is known to be valid."""

    def __init__(self, regex: str) -> None:
        self._regex = regex

    def bits(self) -> float:
        return self._alternatives(0).bits

    def _alternatives(self, start: int) -> _Piece:
        """Up to the closing parenthesis, or the end."""
        branches, position = [0.0], start
        while position < len(self._regex) and self._regex[position] != ")":
            if self._regex[position] == "|":
                branches.append(0.0)
                position += 1
                continue
            piece = self._repeated(self._atom(position))
            branches[-1] += piece.bits
            position = piece.end
        return _Piece(max(branches) + log2(len(branches)), position)

    def _atom(self, position: int) -> _Piece:
        regex = self._regex
        if regex[position] == "(":
            if regex.startswith(_REFUSED_GROUPS, position):
                raise _Refused
            inner = self._alternatives(_after_opening(regex, position))
            return _Piece(inner.bits, inner.end + 1)
        if regex[position] == "[":
            return _Piece(0, _after_class(regex, position))
        if regex[position] == "\\":
            if regex[position + 1 : position + 2].isdigit():
                raise _Refused
            return _Piece(0, position + 2)
        return _Piece(0, position + 1)

    def _repeated(self, atom: _Piece) -> _Piece:
        """With the quantifiers that follow it; a `?` after one only says what to try first."""
        bits, end = atom
        while end < len(self._regex):
            mark = self._regex[end]
            braces = _REPEATS_AT_MOST.match(self._regex, end) if mark == "{" else None
            if mark in "*+":
                lowest, highest, end = 0.0, _UNBOUNDED, end + 1
            elif mark == "?":
                lowest, highest, end = 0.0, 1.0, end + 1
            elif braces is not None:
                (lowest, highest), end = _bounds(braces), braces.end()
            else:
                break
            many = _STAR_BITS if highest == _UNBOUNDED else log2(highest - lowest + 1)
            bits = (bits * highest if bits else 0.0) + many
        return _Piece(bits, end)


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


def _bounds(braces: re.Match[str]) -> tuple[float, float]:
    lowest, comma, highest = braces.groups()
    if not comma:
        return float(lowest or 0), float(lowest or 0)
    return float(lowest or 0), float(highest) if highest else _UNBOUNDED

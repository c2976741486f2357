"""A message as every client knows it, and what a test asks of a client."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tests.support.eventually import RanOutOfTime

Header = tuple[str, bytes | None]

PATIENCE_S = 120.0
"""How long anything may take before a test calls it lost. A bound, not an expectation."""


class Message(NamedTuple):
    """What was sent, or what was read. A `timestamp` of None is the client's own clock."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    partition: int = 0
    offset: int = -1


class Client(Protocol):
    """One client library, behind the two things that all of them do."""

    name: str
    codecs: Sequence[str]
    """Those it can write and read here, `none` included."""
    sets_timestamps: bool

    def write(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Send all, each to its partition, in order; return when all are acknowledged."""

    def read(
        self,
        bootstrap: str,
        topic: str,
        count: int,
        *,
        partitions: Sequence[int] = (0,),
        options: Mapping[str, Any] | None = None,
    ) -> list[Message]:
        """The first `count` messages that arrive, from the beginning of the partitions."""


class Deadline:
    """A wait that ends with a sentence instead of a hang."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._at = time.monotonic() + PATIENCE_S

    def check(self, seen: object = "") -> None:
        if time.monotonic() > self._at:
            raise RanOutOfTime(f"{self._what}: nothing more within {PATIENCE_S:.0f} s {seen}")

"""What is sent and received, as plain values. Imports no client library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

Header = tuple[str, bytes | None]
Headers = Sequence[tuple[str, bytes | str | None]]
"""To send. A list of pairs, since a name may stand in it more than once, and order is kept."""


@dataclass(frozen=True, slots=True)
class Message:
    """A record as it lies in the log. Without a value it is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: list[Header] = field(default_factory=list)
    timestamp_ms: int = -1

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def text(self) -> str:
        """The value as UTF-8."""
        return (self.value or b"").decode()


class Receipt(NamedTuple):
    """Where an acknowledged record stands. Without acknowledgements (acks=0), the offset is -1."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


def as_bytes(data: bytes | str | None) -> bytes | None:
    """Text travels as UTF-8."""
    return data.encode() if isinstance(data, str) else data

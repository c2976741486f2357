"""The members of a classic group: those of a generation, and those on their way into the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.consumer_protocol import PROTOCOL_TYPE, decode_subscription


class Protocol(NamedTuple):
    """A way of assigning that a member knows, and what it has to say for it."""

    name: str
    metadata: bytes


Protocols = tuple[Protocol, ...]
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Member:
    """One of a generation, as recorded."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """Its metadata for the generation's protocol."""
    assignment: bytes = b""
    epoch_reached: int = NO_EPOCH
    """Where the group has come from the newer protocol: the epoch that the member had reached
    there, if that is not the generation's number yet. What it has, it has as of then."""


@dataclass(slots=True)
class Candidate:
    """One who has asked to be in the next generation. Soft: if the node dies it will ask again."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    ticket: int | None

    def member(self, protocol: str) -> Member:
        return Member(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=metadata_for(protocol, self.protocols),
        )


def metadata_for(name: str, protocols: Protocols) -> bytes:
    return next((metadata for known, metadata in protocols if known == name), b"")


def shared_protocols(supported: Iterable[Protocols]) -> list[str]:
    """The names that all members know, in the order of the first member's liking."""
    lists = [[protocol.name for protocol in protocols] for protocols in supported]
    if not lists:
        return []
    return [name for name in lists[0] if all(name in names for names in lists)]


def choose_protocol(supported: Sequence[Protocols]) -> str:
    """Every member votes for the first of its protocols that all know; most votes win.

    At a tie the first member's liking decides, so that the same members choose the same.
    """
    shared = shared_protocols(supported)
    assert shared, "members without a protocol in common were let into one group"
    votes = Counter(
        next(protocol.name for protocol in protocols if protocol.name in shared)
        for protocols in supported
    )
    return max(shared, key=lambda name: (votes[name], -shared.index(name)))


def subscribed_topics(protocol_type: str | None, metadata: bytes) -> frozenset[str] | None:
    """The topics of a consumer's subscription; `None` if only the members understand it."""
    if protocol_type != PROTOCOL_TYPE:
        return None
    try:
        return frozenset(decode_subscription(metadata).topics)
    except DecodeError:
        return None


def is_same_interest(protocol_type: str | None, old: bytes, new: bytes) -> bool:
    """Does the new metadata ask for what the old asked for?

    A consumer's metadata also tells what it owned when it spoke; a consumer that was restarted owns
    nothing, and should have its partitions back without a rebalance.
    """
    if old == new:
        return True
    topics = subscribed_topics(protocol_type, new)
    return topics is not None and topics == subscribed_topics(protocol_type, old)

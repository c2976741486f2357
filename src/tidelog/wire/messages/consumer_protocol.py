"""What consumers say to each other through JoinGroup and SyncGroup: versions 0-3 of the protocol
type "consumer".

To the classic coordinator these are opaque bytes, passed from the members to their leader and back.
It looks inside only to answer whether a group is subscribed to a topic (OffsetDelete), and to move
a group between the classic and the newer protocol (KIP-848).

- A subscription, in JoinGroup's `metadata`. v1 (KIP-429): the partitions owned, for cooperative
  rebalancing. v2 (KIP-792): the generation in which they were. v3 (KIP-881): the rack.
- An assignment, in SyncGroup's `assignment`. v1-3: the same bytes.
- The version stands before the body. A version from the future is read as the last we know: new
  fields come at the end, and members of one group need not be of one release.
"""

from __future__ import annotations

import struct
from typing import Any

from tidelog.wire.codec import decoder, encode_body
from tidelog.wire.errors import DecodeError
from tidelog.wire.schema import array, byte_string, int32, message, string

PROTOCOL_TYPE = "consumer"
"""The protocol type under which members exchange these messages."""

LAST_VERSION = 3

_VERSION = struct.Struct(">h")


@message
class TopicPartition:
    topic: str = string()
    partitions: list[int] = array("int32", default_factory=list)


@message(versions="0-3")
class ConsumerProtocolSubscription:
    topics: list[str] = array("string")
    user_data: bytes | None = byte_string(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(
        TopicPartition, versions="1+", default_factory=list
    )
    generation_id: int = int32(versions="2+", default=-1)
    rack_id: str | None = string(versions="3+", nullable="3+", default=None)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = byte_string(nullable="0+", default=None)


def encode_subscription(
    subscription: ConsumerProtocolSubscription, version: int = LAST_VERSION
) -> bytes:
    """The bytes for JoinGroup's `metadata`."""
    return _encode(subscription, version)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = LAST_VERSION) -> bytes:
    """The bytes for SyncGroup's `assignment`."""
    return _encode(assignment, version)


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """What JoinGroup's `metadata` says, or `DecodeError`."""
    subscription: ConsumerProtocolSubscription = _decode(ConsumerProtocolSubscription, metadata)
    return subscription


def decode_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """What SyncGroup's `assignment` says, or `DecodeError`."""
    decoded: ConsumerProtocolAssignment = _decode(ConsumerProtocolAssignment, assignment)
    return decoded


def version_of(data: bytes) -> int:
    """The version that a subscription or an assignment was written in, or `DecodeError`."""
    if len(data) < _VERSION.size:
        raise DecodeError("the consumer protocol's bytes are cut off within their version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"the consumer protocol has no version {version}")
    return int(version)


def _encode(body: Any, version: int) -> bytes:
    encoded = bytearray(_VERSION.pack(version))
    for part in encode_body(body, version):
        assert isinstance(part, bytes | bytearray), "there are no records here, so no spans"
        encoded += part
    return bytes(encoded)


def _decode(cls: type[Any], data: bytes) -> Any:
    version = min(version_of(data), LAST_VERSION)
    return decoder(cls, version)(memoryview(data), _VERSION.size)

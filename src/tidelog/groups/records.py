"""The records of `__consumer_offsets`, in Kafka's own formats: Kafka's tools read the topic.

A key is an int16 (the kind of record) and a body; a value is an int16 (its version) and a body; no
value is a tombstone. Kinds 0-2 are the classic protocol's and the offsets', 3-8 and 16 those of the
newer protocol (KIP-848). Kind 4 (the partitions of subscribed topics) is read over: newer releases
of Kafka keep a hash in kind 3 instead, as we do.

Some fields are ours. `GroupMetadataValue.is_unsettled` says that the generation has no assignment
(yet): so the number of a generation is recorded before anybody hears it, and is never given out
twice. `MemberMetadata.epoch_reached` lets a member go on that was behind when its group came back
from the newer protocol. `OffsetCommitValue.topic_id` tells a topic from its successor of the same
name. `ConsumerGroupMetadataValue.empty_since` says when the last member left, so that offsets are
kept for their time after it. The rest is Kafka's, field by field.

Kafka writes offsets and group metadata as version 3, which has no tagged fields, and tools such as
Burrow read nothing newer. So the values are version 3 to the byte, and our fields of them stand in
a header of the record (`OwnFields`), which nobody else looks at. Earlier releases wrote version 4
with tagged fields; these records are still read.
"""

from __future__ import annotations

import struct as binary
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tidelog.groups.decision import GroupRecord
from tidelog.groups.members import NO_EPOCH
from tidelog.wire.codec import decoder, encode_body
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Header
from tidelog.wire.schema import (
    NO_UUID,
    array,
    boolean,
    byte_string,
    int8,
    int32,
    int64,
    message,
    schema_of,
    string,
    struct,
    uuid,
)

_NUMBER = binary.Struct(">h")
_KIND_AND_LENGTH = binary.Struct(">hh")
_PARTITION = binary.Struct(">i")
_OFFSET_START = binary.Struct(">hqih")
_TIMESTAMP = binary.Struct(">q")
_MAX_STRING = 0x7FFF
_TOPIC_ID_TAG = bytes((1, 0, 16))
"""One tagged field: number 0, of 16 bytes."""
OWN_HEADER = "tidelog"
_PLAIN_VERSION = 3
"""Of offsets and group metadata: the last without tagged fields."""


@message(versions="0", flexible="0+")
class OwnFields:
    """The value of the header `tidelog`. `epochs_reached` are in the order of the members."""

    topic_id: UUID = uuid(tag=0, default=NO_UUID)
    is_unsettled: bool = boolean(tag=1, default=False)
    epochs_reached: list[int] = array("int32", tag=2, default_factory=list)


@message(versions="0")
class OffsetCommitKey:
    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: int = int64()
    leader_epoch: int = int32(versions="3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(versions="1", default=-1)
    topic_id: UUID = uuid(versions="4+", tag=0, default=NO_UUID)


@message(versions="0")
class GroupMetadataKey:
    group: str = string()


@message
class MemberMetadata:
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(versions="1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = byte_string()
    assignment: bytes = byte_string()
    epoch_reached: int = int32(versions="4+", tag=1000, default=-1)


@message(versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+", default=None)
    leader: str | None = string(nullable="0+", default=None)
    current_state_timestamp: int = int64(versions="2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)
    is_unsettled: bool = boolean(versions="4+", tag=1000, default=False)


@message(versions="0")
class ConsumerGroupMetadataKey:
    group_id: str = string()


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: int = int32()
    metadata_hash: int = int64(tag=0, default=0)
    empty_since: int = int64(tag=1000, default=-1)


@message(versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: str = string()
    member_id: str = string()


@message
class ClassicProtocol:
    name: str = string()
    metadata: bytes = byte_string()


@message
class ClassicMemberMetadata:
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", tag=0, default=None
    )


@message(versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = string()


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


@message(versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = string()
    member_id: str = string()


@message
class RecordedPartitions:
    topic_id: UUID = uuid()
    partitions: list[int] = array("int32")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[RecordedPartitions] = array(RecordedPartitions)


@message(versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = string()
    member_id: str = string()


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[RecordedPartitions] = array(RecordedPartitions)
    partitions_pending_revocation: list[RecordedPartitions] = array(RecordedPartitions)


@message(versions="0")
class ConsumerGroupRegularExpressionKey:
    group_id: str = string()
    regular_expression: str = string()


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = array("string")
    version: int = int64()
    timestamp: int = int64()


ConsumerKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
"""Of the newer protocol."""

Key = OffsetCommitKey | GroupMetadataKey | ConsumerKey

# The numbers are Kafka's. Kind 0 is the offset commit of releases before 0.9: the same bytes as 1.
_KINDS: dict[int, tuple[type[Key], type[Any]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
_NUMBERS: dict[type[Key], int] = {key: number for number, (key, _) in _KINDS.items()}


def record(key: Key, value: Any = None) -> GroupRecord:
    """The bytes of a record; without a value, of a tombstone."""
    key_bytes = _NUMBER.pack(_NUMBERS[type(key)]) + _body(key, 0)
    if value is None:
        return GroupRecord(key_bytes, None)
    version = _version_for(value)
    value_bytes = _NUMBER.pack(version) + _body(value, version)
    own = _own_fields(value)
    headers = () if own is None else ((OWN_HEADER, _body(own, 0)),)
    return GroupRecord(key_bytes, value_bytes, headers)


def offset_record(key: OffsetCommitKey, value: OffsetCommitValue) -> GroupRecord:
    """`record` of a committed offset, without the detours: there is one for every commit."""
    group, topic, metadata = key.group.encode(), key.topic.encode(), value.metadata.encode()
    if value.expire_timestamp >= 0 or max(len(group), len(topic), len(metadata)) > _MAX_STRING:
        return record(key, value)
    topic_id = value.topic_id
    return GroupRecord(
        b"%b%b%b%b%b"
        % (
            _KIND_AND_LENGTH.pack(1, len(group)),
            group,
            _NUMBER.pack(len(topic)),
            topic,
            _PARTITION.pack(key.partition),
        ),
        b"%b%b%b"
        % (
            _OFFSET_START.pack(_PLAIN_VERSION, value.offset, value.leader_epoch, len(metadata)),
            metadata,
            _TIMESTAMP.pack(value.commit_timestamp),
        ),
        ((OWN_HEADER, _TOPIC_ID_TAG + topic_id.int.to_bytes(16, "big")),) if topic_id.int else (),
        (key, value),
    )


def _version_for(value: Any) -> int:
    """The one Kafka writes. Only version 1 of an offset can tell when it expires."""
    if isinstance(value, OffsetCommitValue):
        return 1 if value.expire_timestamp >= 0 else _PLAIN_VERSION
    return _PLAIN_VERSION if isinstance(value, GroupMetadataValue) else 0


def _own_fields(value: Any) -> OwnFields | None:
    """What of `value` its version can't say; nothing if there is nothing."""
    if isinstance(value, OffsetCommitValue):
        return None if value.topic_id == NO_UUID else OwnFields(topic_id=value.topic_id)
    if not isinstance(value, GroupMetadataValue):
        return None
    epochs = [member.epoch_reached for member in value.members]
    has_epochs = any(epoch != NO_EPOCH for epoch in epochs)
    if not (value.is_unsettled or has_epochs):
        return None
    return OwnFields(is_unsettled=value.is_unsettled, epochs_reached=epochs if has_epochs else [])


def read_record(
    key: bytes, value: bytes | None, headers: Sequence[Header] = ()
) -> tuple[Key, Any] | None:
    """The key and the value (`None`: a tombstone); nothing for a kind that is not ours to read.

    `DecodeError` where the bytes are not what their kind says.
    """
    kinds = _KINDS.get(_number(key))
    if kinds is None:
        return None
    key_type, value_type = kinds
    read_key: Key = decoder(key_type, 0)(memoryview(key), _NUMBER.size)
    if value is None:
        return read_key, None
    version = _number(value)
    versions = schema_of(value_type).versions
    if not versions.holds(version):
        raise DecodeError(f"{value_type.__name__} of version {version} is from a newer release")
    read_value = decoder(value_type, version)(memoryview(value), _NUMBER.size)
    for name, own in headers:
        if name == OWN_HEADER and own is not None:
            _restore(read_value, decoder(OwnFields, 0)(memoryview(own), 0))
    return read_key, read_value


def _restore(value: Any, own: OwnFields) -> None:
    if isinstance(value, OffsetCommitValue):
        value.topic_id = own.topic_id
    elif isinstance(value, GroupMetadataValue):
        value.is_unsettled = own.is_unsettled
        if own.epochs_reached and len(own.epochs_reached) != len(value.members):
            raise DecodeError("a group's record has not as many epochs as members")
        for member, epoch in zip(value.members, own.epochs_reached, strict=False):
            member.epoch_reached = epoch


def _number(data: bytes) -> int:
    if len(data) < _NUMBER.size:
        raise DecodeError("a group's record is cut off")
    return int(_NUMBER.unpack_from(data)[0])


def _body(body: Any, version: int) -> bytes:
    return b"".join(
        part for part in encode_body(body, version) if isinstance(part, bytes | bytearray)
    )

"""The kinds of metadata record, and their bytes: a kind byte, a version byte, the body.

The bodies are described with the schema of the wire, so they evolve the way Kafka's messages do: a
new field gets a version and a default, and old logs stay readable for ever. What is written whole
(a node, a partition) has a record of its own; what happens to it later is a *change* record, which
carries only what changed.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.wire.codec import decoder, encode_body
from tidelog.wire.errors import DecodeError
from tidelog.wire.schema import (
    NO_UUID,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    schema_of,
    string,
    uuid,
)

UNCHANGED = -1
"""Of a flag in a `NodeChangeRecord`."""

LEADER_UNCHANGED = -2
"""Of the leader in a `PartitionChangeRecord`. Naming the same leader again is a change: it gets
the next leader epoch."""


@message(versions="0-1", flexible="0+")
class ClusterRecord:
    """The cluster's identity. The first record of every metadata log."""

    cluster_id: str = string()
    last_broker_epoch: int = int64(versions="1+", default=0)


@message
class ListenerRecord:
    """One address of a node."""

    name: str = string()
    host: str = string()
    port: int = int32()
    security_protocol: int = int16()


@message(versions="0-2", flexible="0+")
class NodeRecord:
    """A node has started; clients reach it here. A new registration replaces all of the old, but
    for `served_epoch`, the last under which the node was not fenced."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    epoch: int = int64()
    incarnation_id: UUID = uuid(versions="1+", default=NO_UUID)
    is_fenced: bool = boolean(versions="1+", default=False)
    is_shutting_down: bool = boolean(versions="1+", default=False)
    listeners: list[ListenerRecord] = array(ListenerRecord, versions="1+", default_factory=list)
    served_epoch: int = int64(versions="2+", default=-1)


@message(versions="0", flexible="0+")
class NodeChangeRecord:
    """A node was fenced or unfenced, or began to shut down: 1 for yes, 0 for no, or unchanged."""

    node_id: int = int32()
    epoch: int = int64()
    is_fenced: int = int8(tag=0, default=UNCHANGED)
    is_shutting_down: int = int8(tag=1, default=UNCHANGED)


@message(versions="0", flexible="0+")
class UnregisterNodeRecord:
    """The node is gone for good."""

    node_id: int = int32()
    epoch: int = int64()


@message(versions="0", flexible="0+")
class TopicRecord:
    """A topic exists from here on."""

    name: str = string()
    topic_id: UUID = uuid()


@message(versions="0-1", flexible="0+")
class PartitionRecord:
    """A partition of a topic exists, or (in old logs) has changed hands."""

    topic_id: UUID = uuid()
    partition: int = int32()
    replicas: list[int] = array("int32")
    isr: list[int] = array("int32")
    leader: int = int32()
    leader_epoch: int = int32()
    partition_epoch: int = int32(versions="1+", default=0)
    adding_replicas: list[int] = array("int32", versions="1+", default_factory=list)
    removing_replicas: list[int] = array("int32", versions="1+", default_factory=list)
    elr: list[int] = array("int32", versions="1+", default_factory=list)
    last_known_elr: list[int] = array("int32", versions="1+", default_factory=list)


@message(versions="0", flexible="0+")
class PartitionChangeRecord:
    """What changed of a partition; null is what did not. The partition epoch grows by one, and the
    leader epoch too if a leader is named."""

    topic_id: UUID = uuid()
    partition: int = int32()
    isr: list[int] | None = array("int32", nullable="0+", tag=0, default=None)
    leader: int = int32(tag=1, default=LEADER_UNCHANGED)
    replicas: list[int] | None = array("int32", nullable="0+", tag=2, default=None)
    removing_replicas: list[int] | None = array("int32", nullable="0+", tag=3, default=None)
    adding_replicas: list[int] | None = array("int32", nullable="0+", tag=4, default=None)
    elr: list[int] | None = array("int32", nullable="0+", tag=5, default=None)
    last_known_elr: list[int] | None = array("int32", nullable="0+", tag=6, default=None)


@message(versions="0", flexible="0+")
class ConfigRecord:
    """A topic's setting, or with the null topic id what topics have that say nothing themselves;
    no value means the default again."""

    topic_id: UUID = uuid()
    name: str = string()
    value: str | None = string(nullable="0+", default=None)


@message(versions="0", flexible="0+")
class ResourceConfigRecord:
    """A setting of one node or one group: `resource_type` is the protocol's number for what has it,
    `resource_name` the node's id or the group's name. No value means the default again."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+", default=None)


@message(versions="0-1", flexible="0+")
class RemoveTopicRecord:
    """The topic is no more, and its files may go. In a snapshot: is no more since before it."""

    topic_id: UUID = uuid()
    name: str = string(versions="1+", default="")


@message(versions="0", flexible="0+")
class ProducerIdsRecord:
    """All producer ids below this one are spoken for."""

    next_producer_id: int = int64()


MetadataRecord = (
    ClusterRecord
    | NodeRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | RemoveTopicRecord
    | ProducerIdsRecord
    | PartitionChangeRecord
    | NodeChangeRecord
    | UnregisterNodeRecord
    | ResourceConfigRecord
)

# The numbers are on disk: never reuse one.
_KINDS: dict[int, type[MetadataRecord]] = {
    1: ClusterRecord,
    2: NodeRecord,
    3: TopicRecord,
    4: PartitionRecord,
    5: ConfigRecord,
    6: RemoveTopicRecord,
    7: ProducerIdsRecord,
    8: PartitionChangeRecord,
    9: NodeChangeRecord,
    10: UnregisterNodeRecord,
    11: ResourceConfigRecord,
}
_NUMBERS = {kind: number for number, kind in _KINDS.items()}


def encode_record(record: MetadataRecord) -> bytes:
    kind = type(record)
    version = schema_of(kind).versions.last
    return bytes((_NUMBERS[kind], version)) + b"".join(encode_body(record, version))  # type: ignore[arg-type]


def decode_record(data: bytes) -> MetadataRecord:
    """`DecodeError` if the record is of a kind or version this release does not know."""
    if len(data) < 2 or data[0] not in _KINDS:
        raise DecodeError(f"unknown kind of metadata record: {data[:2].hex()}")
    kind, version = _KINDS[data[0]], data[1]
    if not schema_of(kind).versions.holds(version):
        raise DecodeError(f"{kind.__name__} of version {version} is from a newer release")
    record: MetadataRecord = decoder(kind, version)(memoryview(data), 2)
    return record

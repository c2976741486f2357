"""The kinds of metadata record, and their bytes: a kind byte, a version byte, the body.

The bodies are described with the schema of the wire, so they evolve the way Kafka's messages do: a
new field gets a version and a default, and old logs stay readable for ever.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.wire.codec import decoder, encode_body
from tidelog.wire.errors import DecodeError
from tidelog.wire.schema import array, int32, int64, message, schema_of, string, uuid


@message(versions="0", flexible="0+")
class ClusterRecord:
    """The cluster's identity. The first record of every metadata log."""

    cluster_id: str = string()


@message(versions="0", flexible="0+")
class NodeRecord:
    """A node has started; clients reach it here."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    epoch: int = int64()


@message(versions="0", flexible="0+")
class TopicRecord:
    """A topic exists from here on."""

    name: str = string()
    topic_id: UUID = uuid()


@message(versions="0", flexible="0+")
class PartitionRecord:
    """A partition of a topic exists, or has changed hands."""

    topic_id: UUID = uuid()
    partition: int = int32()
    replicas: list[int] = array("int32")
    isr: list[int] = array("int32")
    leader: int = int32()
    leader_epoch: int = int32()


@message(versions="0", flexible="0+")
class ConfigRecord:
    """A topic's setting; no value means the default again."""

    topic_id: UUID = uuid()
    name: str = string()
    value: str | None = string(nullable="0+", default=None)


@message(versions="0", flexible="0+")
class RemoveTopicRecord:
    """The topic is no more, and its files may go."""

    topic_id: UUID = uuid()


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

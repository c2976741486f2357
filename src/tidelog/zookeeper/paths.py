"""The znodes, and what is in them: JSON for people, and the metadata log in its own bytes.

/brokers/ids/<id>                              a node that is there (ephemeral)
/brokers/topics/<topic>                        a topic and where its replicas are
/brokers/topics/<topic>/partitions/<n>/state   who leads a partition, and who is in sync
/config/topics/<topic>                         what was set for the topic
/controller                                    who the controller is (ephemeral)
/controller_epoch                              how many there were; all their writes check it
/tidelog/metadata/head                         how far the metadata log goes, and its snapshot
/tidelog/metadata/log/<first offset>           one batch of metadata records
/tidelog/metadata/snapshots/<end>-<epoch>/<n>  all metadata before <end>, in pieces
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any
from uuid import UUID

from tidelog.metadata.image import PartitionState, TopicState
from tidelog.metadata.records import MetadataRecord, decode_record, encode_record
from tidelog.model.ids import NO_OFFSET, Endpoint, NodeId, Offset
from tidelog.wire.errors import DecodeError

IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONFIGS = "/config/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
HEAD = "/tidelog/metadata/head"
LOG = "/tidelog/metadata/log"
SNAPSHOTS = "/tidelog/metadata/snapshots"

PIECE_BYTES = 512 * 1024
"""Of a batch or a snapshot in one znode: ZooKeeper takes less than a megabyte at once."""

_BATCH = Struct(">BIHI")
"""Version, controller epoch, number of pieces, number of records."""

_LENGTH = Struct(">I")
_FORMAT = 1

FIRST = Offset(0)


def id_path(node_id: NodeId) -> str:
    return f"{IDS}/{node_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{partition_path(topic, partition)}/state"


def config_path(topic: str) -> str:
    return f"{CONFIGS}/{topic}"


def batch_path(first: Offset) -> str:
    return f"{LOG}/{first:020d}"


def piece_path(first: Offset, epoch: int, piece: int) -> str:
    """Of a batch that one znode can't hold. The epoch tells pieces of a controller that was
    replaced before it could use them from those of its successor."""
    return f"{batch_path(first)}-{epoch}-{piece}"


def first_offset(name: str) -> Offset:
    """What the name of a znode of the log, or of a snapshot, begins with; none of ours if -1."""
    digits = name.partition("-")[0]
    return Offset(int(digits)) if digits.isdecimal() else NO_OFFSET


def snapshot_path(end: Offset, epoch: int) -> str:
    return f"{SNAPSHOTS}/{end:020d}-{epoch}"


# --- for people ---------------------------------------------------------------------------------


def to_json(**fields: Any) -> bytes:
    return json.dumps({"version": _FORMAT, **fields}).encode()


def from_json(data: bytes) -> dict[str, Any]:
    """What a znode says; nothing if it is not ours to understand."""
    try:
        fields = json.loads(data)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def node_json(endpoint: Endpoint, rack: str | None, epoch: int) -> bytes:
    return to_json(host=endpoint.host, port=endpoint.port, rack=rack, epoch=epoch)


def state_json(state: PartitionState, controller_epoch: int) -> bytes:
    return to_json(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        elr=list(state.elr),
        partition_epoch=state.partition_epoch,
        controller_epoch=controller_epoch,
    )


def topic_json(topic: TopicState) -> bytes:
    topic_id: UUID = topic.topic_id
    return to_json(
        topic_id=str(topic_id),
        partitions={str(n): list(state.replicas) for n, state in enumerate(topic.partitions)},
    )


def config_json(configs: Mapping[str, str]) -> bytes:
    return to_json(config=dict(configs))


def decode_count(data: bytes) -> int:
    """What `CONTROLLER_EPOCH` says."""
    if not data.isdigit():
        raise DecodeError(f"{CONTROLLER_EPOCH} can't be understood: {data[:100]!r}")
    return int(data)


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """Who the controller is, and where."""

    node_id: NodeId
    epoch: int
    endpoint: Endpoint

    def encode(self) -> bytes:
        host, port = self.endpoint
        return to_json(brokerid=self.node_id, epoch=self.epoch, host=host, port=port)

    @classmethod
    def decode(cls, data: bytes) -> ControllerNode | None:
        fields = from_json(data)
        try:
            endpoint = Endpoint(str(fields["host"]), int(fields["port"]))
            return cls(NodeId(int(fields["brokerid"])), int(fields["epoch"]), endpoint)
        except (KeyError, TypeError, ValueError):
            return None


# --- the metadata log ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """All metadata before `end`, written by the controller of `epoch`."""

    end: Offset
    epoch: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Head:
    """The log goes to `end`; the last to write it was the controller of `epoch`. It begins where
    the snapshot ends, or at 0."""

    end: Offset = FIRST
    epoch: int = 0
    snapshot: SnapshotPlace | None = None

    @property
    def start(self) -> Offset:
        return FIRST if self.snapshot is None else self.snapshot.end

    def encode(self) -> bytes:
        at = self.snapshot
        place = None if at is None else {"end": at.end, "epoch": at.epoch, "pieces": at.pieces}
        return to_json(end=self.end, epoch=self.epoch, snapshot=place)

    @classmethod
    def decode(cls, data: bytes) -> Head:
        """`DecodeError` if it is no head: nothing can be built on that."""
        fields = from_json(data)
        try:
            at = fields["snapshot"]
            place = None
            if at is not None:
                place = SnapshotPlace(Offset(int(at["end"])), int(at["epoch"]), int(at["pieces"]))
            return cls(Offset(int(fields["end"])), int(fields["epoch"]), place)
        except (KeyError, TypeError, ValueError):
            raise DecodeError(f"{HEAD} can't be understood: {data[:100]!r}") from None


def encode_batch(records: Sequence[MetadataRecord], epoch: int) -> list[bytes]:
    """One decision, or some that followed each other: the pieces, most often one."""
    body = bytearray()
    for record in records:
        encoded = encode_record(record)
        body += _LENGTH.pack(len(encoded)) + encoded
    room = PIECE_BYTES - _BATCH.size
    pieces = [bytes(body[:room])]
    pieces += [bytes(body[at : at + PIECE_BYTES]) for at in range(room, len(body), PIECE_BYTES)]
    pieces[0] = _BATCH.pack(_FORMAT, epoch, len(pieces), len(records)) + pieces[0]
    return pieces


@dataclass(frozen=True, slots=True)
class BatchOpening:
    """What the first piece of a batch says of all of it."""

    epoch: int
    pieces: int
    count: int


def open_batch(data: bytes) -> BatchOpening:
    if len(data) < _BATCH.size or data[0] != _FORMAT:
        raise DecodeError(f"no batch of metadata that this release knows: {data[:8].hex()}")
    _, epoch, pieces, count = _BATCH.unpack_from(data)
    return BatchOpening(epoch, pieces, count)


def decode_batch(pieces: Sequence[bytes]) -> list[MetadataRecord]:
    opening = open_batch(pieces[0])
    data = b"".join(pieces)
    records: list[MetadataRecord] = []
    position = _BATCH.size
    while position < len(data):
        start = position + _LENGTH.size
        position = start + int.from_bytes(data[position:start], "big")
        records.append(decode_record(data[start:position]))
    if len(records) != opening.count or position != len(data):
        raise DecodeError(f"a batch of {opening.count} metadata records has {len(records)}")
    return records


def split(data: bytes) -> list[bytes]:
    """A snapshot as the pieces that znodes can hold."""
    return [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)] or [b""]

"""What the metadata log is made of, and its bytes.

A batch is either records of the state machine above, which nobody here looks into, or one control
record of the quorum itself: a leader took over, or the set of voters is another. The bytes are
those of a v2 record batch. A control record is told by its key, which has the layout and the
numbers of Kafka's control records; records of the state machine have no key.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.wire.batch import iter_batches
from tidelog.wire.codec import decoder, encode_body
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.quorum_records import (
    LeaderChangeMessage,
    LeaderChangeVoter,
    VotersRecord,
    VotersRecordEndpoint,
    VotersRecordVoter,
)
from tidelog.wire.records import Record, decode_records, encode_batch

MAX_BATCH_BYTES = 1 << 30

_KEY = struct.Struct(">hh")
_LEADER_CHANGE = 2
_VOTERS = 6
_LEADER_CHANGE_VERSION = 1
_VOTERS_VERSION = 0


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The first record of every leader: once it is committed, so is everything before it."""

    leader: ReplicaKey
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class VotersChange:
    """From here on these are the voters."""

    voters: VoterSet


Control = LeaderChange | VotersChange


@dataclass(frozen=True, slots=True)
class Batch:
    """What was appended at once, by the leader of `epoch`."""

    base_offset: Offset
    epoch: LeaderEpoch
    records: tuple[bytes, ...] = ()
    control: Control | None = None

    @property
    def next_offset(self) -> Offset:
        return Offset(self.base_offset + (len(self.records) if self.control is None else 1))

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return 70 + sum(len(record) + 10 for record in self.records)


def encode(batch: Batch, *, timestamp_ms: int = 0) -> bytearray:
    """The batch as the log and the wire have it."""
    if batch.control is None:
        records = [Record(0, timestamp_ms, value=value) for value in batch.records]
    else:
        key, value = _encode_control(batch.control)
        records = [Record(0, timestamp_ms, key=key, value=value)]
    return encode_batch(records, base_offset=batch.base_offset, leader_epoch=batch.epoch)


def decode(data: bytes | bytearray | memoryview) -> tuple[Batch, ...]:
    """All batches in `data`; `DecodeError` if one can't be understood."""
    batches = []
    for header, raw in iter_batches(memoryview(data)):
        records = decode_records(raw, MAX_BATCH_BYTES)
        base, epoch = Offset(header.base_offset), LeaderEpoch(header.leader_epoch)
        if records and records[0].key is not None:
            control = _decode_control(records[0].key, records[0].value or b"")
            batches.append(Batch(base, epoch, control=control))
        else:
            values = tuple(record.value or b"" for record in records)
            batches.append(Batch(base, epoch, records=values))
    return tuple(batches)


def _encode_control(control: Control) -> tuple[bytes, bytes]:
    if isinstance(control, LeaderChange):
        message = LeaderChangeMessage(
            version=_LEADER_CHANGE_VERSION,
            leader_id=control.leader.node_id,
            voters=[_change_voter(key) for key in control.voters],
            granting_voters=[_change_voter(key) for key in control.granting],
        )
        body = encode_body(message, _LEADER_CHANGE_VERSION)
        return _KEY.pack(0, _LEADER_CHANGE), b"".join(body)  # type: ignore[arg-type]
    return _KEY.pack(0, _VOTERS), encode_voters(control.voters)


def _change_voter(key: ReplicaKey) -> LeaderChangeVoter:
    return LeaderChangeVoter(voter_id=key.node_id, voter_directory_id=key.directory_id)


def _decode_control(key: bytes, value: bytes) -> Control:
    if len(key) != _KEY.size:
        raise DecodeError(f"no key of a control record: {key.hex()}")
    _, kind = _KEY.unpack(key)
    if kind == _VOTERS:
        return VotersChange(decode_voters(value))
    if kind != _LEADER_CHANGE:
        raise DecodeError(f"unknown kind of control record: {kind}")
    message = decoder(LeaderChangeMessage, _LEADER_CHANGE_VERSION)(memoryview(value), 0)
    keys = {
        name: tuple(ReplicaKey(NodeId(v.voter_id), v.voter_directory_id) for v in voters)
        for name, voters in (("all", message.voters), ("granting", message.granting_voters))
    }
    leader = next(
        (key for key in keys["all"] if key.node_id == message.leader_id),
        ReplicaKey(NodeId(message.leader_id)),
    )
    return LeaderChange(leader, keys["all"], keys["granting"])


def encode_voters(voters: VoterSet) -> bytes:
    record = VotersRecord(
        version=_VOTERS_VERSION,
        voters=[
            VotersRecordVoter(
                voter_id=voter.node_id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[
                    VotersRecordEndpoint(name=each.name, host=each.host, port=each.port)
                    for each in voter.endpoints
                ],
            )
            for voter in voters
        ],
    )
    return b"".join(encode_body(record, _VOTERS_VERSION))  # type: ignore[arg-type]


def decode_voters(data: bytes) -> VoterSet:
    record = decoder(VotersRecord, _VOTERS_VERSION)(memoryview(data), 0)
    return VoterSet.of(
        Voter(
            ReplicaKey(NodeId(voter.voter_id), voter.voter_directory_id),
            tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
        )
        for voter in record.voters
    )

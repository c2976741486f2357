"""Snapshots: what the log said up to an offset, so that the log may begin there.

The state is the state machine's and opaque. Before it stands the set of voters, which belongs to
the quorum, and a checksum over both: pieces of a snapshot come over the network one by one.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from tidelog.model.ids import Offset
from tidelog.quorum.batches import decode_voters, encode_voters
from tidelog.quorum.core import Core
from tidelog.quorum.ports import QuorumLog, SnapshotId
from tidelog.quorum.voters import VoterHistory, VoterSet
from tidelog.wire.errors import DecodeError

_HEADER = struct.Struct(">II")


def encode_snapshot(voters: VoterSet, state: bytes) -> bytes:
    told = encode_voters(voters)
    body = struct.pack(">I", len(told)) + told + state
    return struct.pack(">I", crc32c(body)) + body


def decode_snapshot(data: bytes) -> tuple[VoterSet, bytes]:
    """The voters and the state; `DecodeError` if the bytes are not what was written."""
    if len(data) < _HEADER.size:
        raise DecodeError("a snapshot is cut off")
    checksum, size = _HEADER.unpack_from(data)
    if checksum != crc32c(data[4:]):
        raise DecodeError("a snapshot fails its checksum")
    end = _HEADER.size + size
    return decode_voters(data[_HEADER.size : end]), data[end:]


def take(core: Core, end_offset: Offset, state: bytes) -> SnapshotId:
    """Keep `state` as what the log says below `end_offset`, and let the log begin there."""
    assert core.log.start_offset < end_offset <= core.high_watermark, "not committed, or known"
    snapshot_id = SnapshotId(end_offset, core.log.epoch_at(Offset(end_offset - 1)))
    data = encode_snapshot(core.history.at(end_offset), state)
    core.log.save_snapshot(snapshot_id, data)
    core.history.begin_at(end_offset)
    return snapshot_id


def whole_snapshot(log: QuorumLog) -> tuple[VoterSet, bytes] | None:
    """The newest snapshot, if there is one."""
    snapshot_id = log.snapshot_id
    if snapshot_id is None:
        return None
    size = log.snapshot_size(snapshot_id)
    assert size is not None
    return decode_snapshot(log.read_snapshot(snapshot_id, 0, size))


def install(core: Core, snapshot_id: SnapshotId, data: bytes) -> bytes:
    """In place of the log; gives the state. `DecodeError`: nothing has changed."""
    voters, state = decode_snapshot(data)
    assert snapshot_id.end_offset >= core.high_watermark, "a snapshot takes committed records back"
    core.log.install_snapshot(snapshot_id, data)
    core.history = VoterHistory(voters, [])
    core.high_watermark = snapshot_id.end_offset
    return state

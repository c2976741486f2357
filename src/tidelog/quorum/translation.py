"""The messages of `messages.py` as the wire has them, and back.

Kafka's requests name topics and partitions; the metadata log is partition 0 of
`__cluster_metadata`, whose topic id is fixed. It is fetched without a session, so the session's id
is free for the number of an answer. `VERSIONS` are those in which everything we say has a
place; a peer that asks in an older one is understood. Translating a request of another partition is
a `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tidelog.model.ids import NO_TOPIC_ID, LeaderEpoch, NodeId, Offset
from tidelog.quorum import batches
from tidelog.quorum import messages as m
from tidelog.quorum.ports import EpochEnd, SnapshotId
from tidelog.quorum.voters import Endpoint, ReplicaKey
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages import begin_quorum_epoch as begin
from tidelog.wire.messages import end_quorum_epoch as end
from tidelog.wire.messages import fetch, fetch_snapshot, vote

TOPIC = "__cluster_metadata"
TOPIC_ID = UUID(int=1)
_NAMES = ((TOPIC, NO_TOPIC_ID), ("", TOPIC_ID))
"""How a fetch names the metadata log: before version 13, and since."""
PARTITION = 0
_NOBODY = -1

VERSIONS: dict[type, int] = {
    m.VoteRequest: 2,
    m.BeginQuorumEpochRequest: 1,
    m.EndQuorumEpochRequest: 1,
    m.FetchRequest: 18,
    m.FetchSnapshotRequest: 1,
}
"""Which version of its API a request is sent in."""


def request_to_wire(request: m.PeerRequest) -> Any:
    return _TO_WIRE[type(request)](request)


def request_from_wire(wire: Any) -> m.PeerRequest:
    request: m.PeerRequest = _FROM_WIRE[type(wire)](wire)
    return request


def response_to_wire(response: m.PeerResponse) -> Any:
    return _TO_WIRE[type(response)](response)


def response_from_wire(wire: Any) -> m.PeerResponse:
    response: m.PeerResponse = _FROM_WIRE[type(wire)](wire)
    return response


def is_metadata_fetch(wire: fetch.FetchRequest) -> bool:
    """Of the metadata log, and so for the quorum."""
    if len(wire.topics) != 1:
        return False
    topic = wire.topics[0]
    return (topic.topic, topic.topic_id) in _NAMES


def _only(wire: Any, name_of: str = "topic_name") -> Any:
    """The one partition there is."""
    topics = wire.topics if hasattr(wire, "topics") else wire.responses
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise DecodeError("a message of the quorum is about one partition")
    name = getattr(topics[0], name_of)
    if name not in ("", TOPIC):
        raise DecodeError(f"{name!r} is not the metadata log")
    return topics[0].partitions[0]


def _node(leader_id: int) -> NodeId | None:
    return None if leader_id == _NOBODY else NodeId(leader_id)


def _number(node_id: NodeId | None) -> int:
    return _NOBODY if node_id is None else node_id


# --- Vote -------------------------------------------------------------------------------------


def _vote_to(request: m.VoteRequest) -> vote.VoteRequest:
    partition = vote.PartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.replica.node_id,
        replica_directory_id=request.replica.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    topic = vote.TopicData(topic_name=TOPIC, partitions=[partition])
    return vote.VoteRequest(
        cluster_id=request.cluster_id, voter_id=request.voter.node_id, topics=[topic]
    )


def _vote_from(wire: vote.VoteRequest) -> m.VoteRequest:
    data = _only(wire)
    return m.VoteRequest(
        voter=ReplicaKey(NodeId(wire.voter_id), data.voter_directory_id),
        replica=ReplicaKey(NodeId(data.replica_id), data.replica_directory_id),
        epoch=LeaderEpoch(data.replica_epoch),
        last_epoch=LeaderEpoch(data.last_offset_epoch),
        last_offset=Offset(data.last_offset),
        pre_vote=data.pre_vote,
        cluster_id=wire.cluster_id,
    )


def _voted_to(response: m.VoteResponse) -> vote.VoteResponse:
    partition = vote.VotedPartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=_number(response.leader_id),
        leader_epoch=response.leader_epoch,
        vote_granted=response.is_granted,
    )
    topic = vote.VotedTopicData(topic_name=TOPIC, partitions=[partition])
    return vote.VoteResponse(topics=[topic])


def _voted_from(wire: vote.VoteResponse) -> m.VoteResponse:
    data = _only(wire)
    leader_id, epoch = _node(data.leader_id), LeaderEpoch(data.leader_epoch)
    return m.VoteResponse(wire.error_code or data.error_code, leader_id, epoch, data.vote_granted)


# --- BeginQuorumEpoch, EndQuorumEpoch ---------------------------------------------------------


def _begin_to(request: m.BeginQuorumEpochRequest) -> begin.BeginQuorumEpochRequest:
    partition = begin.PartitionData(
        partition_index=PARTITION,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.node_id,
        topics=[begin.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in request.endpoints
        ],
    )


def _begin_from(wire: begin.BeginQuorumEpochRequest) -> m.BeginQuorumEpochRequest:
    data = _only(wire)
    return m.BeginQuorumEpochRequest(
        voter=ReplicaKey(NodeId(wire.voter_id), data.voter_directory_id),
        leader_id=NodeId(data.leader_id),
        epoch=LeaderEpoch(data.leader_epoch),
        endpoints=tuple(Endpoint(e.name, e.host, e.port) for e in wire.leader_endpoints),
        cluster_id=wire.cluster_id,
    )


def _begun_to(response: m.BeginQuorumEpochResponse) -> begin.BeginQuorumEpochResponse:
    partition = begin.BegunPartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=_number(response.leader_id),
        leader_epoch=response.leader_epoch,
    )
    topic = begin.BegunTopicData(topic_name=TOPIC, partitions=[partition])
    return begin.BeginQuorumEpochResponse(topics=[topic])


def _begun_from(wire: begin.BeginQuorumEpochResponse) -> m.BeginQuorumEpochResponse:
    data = _only(wire)
    leader_id, epoch = _node(data.leader_id), LeaderEpoch(data.leader_epoch)
    return m.BeginQuorumEpochResponse(wire.error_code or data.error_code, leader_id, epoch)


def _end_to(request: m.EndQuorumEpochRequest) -> end.EndQuorumEpochRequest:
    partition = end.PartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=key.node_id, candidate_directory_id=key.directory_id)
            for key in request.successors
        ],
    )
    topic = end.TopicData(topic_name=TOPIC, partitions=[partition])
    return end.EndQuorumEpochRequest(cluster_id=request.cluster_id, topics=[topic])


def _end_from(wire: end.EndQuorumEpochRequest) -> m.EndQuorumEpochRequest:
    data = _only(wire)
    older = tuple(ReplicaKey(NodeId(number)) for number in data.preferred_successors)
    newer = tuple(
        ReplicaKey(NodeId(each.candidate_id), each.candidate_directory_id)
        for each in data.preferred_candidates
    )
    leader_id, epoch = NodeId(data.leader_id), LeaderEpoch(data.leader_epoch)
    return m.EndQuorumEpochRequest(leader_id, epoch, newer or older, wire.cluster_id)


def _ended_to(response: m.EndQuorumEpochResponse) -> end.EndQuorumEpochResponse:
    partition = end.EndedPartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=_number(response.leader_id),
        leader_epoch=response.leader_epoch,
    )
    topic = end.EndedTopicData(topic_name=TOPIC, partitions=[partition])
    return end.EndQuorumEpochResponse(topics=[topic])


def _ended_from(wire: end.EndQuorumEpochResponse) -> m.EndQuorumEpochResponse:
    data = _only(wire)
    leader_id, epoch = _node(data.leader_id), LeaderEpoch(data.leader_epoch)
    return m.EndQuorumEpochResponse(wire.error_code or data.error_code, leader_id, epoch)


# --- Fetch ------------------------------------------------------------------------------------


def _fetch_to(request: m.FetchRequest) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.node_id),
        max_wait_ms=request.max_wait_ms,
        min_bytes=0,
        max_bytes=request.max_bytes,
        session_id=request.heard,
        topics=[fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def _fetch_from(wire: fetch.FetchRequest) -> m.FetchRequest:
    data = _only(wire, "topic")
    node_id = max(wire.replica_id, wire.replica_state.replica_id)
    return m.FetchRequest(
        replica=ReplicaKey(NodeId(node_id), data.replica_directory_id),
        epoch=LeaderEpoch(data.current_leader_epoch),
        fetch_offset=Offset(data.fetch_offset),
        last_fetched_epoch=LeaderEpoch(data.last_fetched_epoch),
        high_watermark=Offset(data.high_watermark),
        max_wait_ms=wire.max_wait_ms,
        max_bytes=min(wire.max_bytes, data.partition_max_bytes),
        cluster_id=wire.cluster_id,
        heard=wire.session_id,
    )


def _fetched_to(response: m.FetchResponse) -> fetch.FetchResponse:
    diverging, snapshot_id = response.diverging, response.snapshot_id
    partition = fetch.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=response.high_watermark,
        last_stable_offset=response.high_watermark,
        log_start_offset=response.log_start_offset,
        diverging_epoch=fetch.EpochEndOffset()
        if diverging is None
        else fetch.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset),
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=_number(response.leader_id), leader_epoch=response.leader_epoch
        ),
        snapshot_id=fetch.SnapshotId()
        if snapshot_id is None
        else fetch.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        aborted_transactions=None,
        records=b"".join(bytes(batches.encode(batch)) for batch in response.batches),
    )
    topic = fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
    return fetch.FetchResponse(session_id=response.number, responses=[topic])


def _fetched_from(wire: fetch.FetchResponse) -> m.FetchResponse:
    data = _only(wire, "topic")
    diverging, snapshot_id = data.diverging_epoch, data.snapshot_id
    return m.FetchResponse(
        wire.error_code or data.error_code,
        _node(data.current_leader.leader_id),
        LeaderEpoch(data.current_leader.leader_epoch),
        Offset(data.high_watermark),
        Offset(data.log_start_offset),
        diverging=EpochEnd(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
        if diverging.end_offset >= 0
        else None,
        snapshot_id=SnapshotId(Offset(snapshot_id.end_offset), LeaderEpoch(snapshot_id.epoch))
        if snapshot_id.end_offset >= 0
        else None,
        batches=batches.decode(data.records or b""),
        number=wire.session_id,
    )


# --- FetchSnapshot ----------------------------------------------------------------------------


def _piece_to(request: m.FetchSnapshotRequest) -> fetch_snapshot.FetchSnapshotRequest:
    wanted = request.snapshot_id
    partition = fetch_snapshot.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=request.max_bytes,
        topics=[fetch_snapshot.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def _snapshot_id(wire: fetch_snapshot.SnapshotId) -> SnapshotId:
    return SnapshotId(Offset(wire.end_offset), LeaderEpoch(wire.epoch))


def _piece_from(wire: fetch_snapshot.FetchSnapshotRequest) -> m.FetchSnapshotRequest:
    data = _only(wire, "name")
    return m.FetchSnapshotRequest(
        ReplicaKey(NodeId(wire.replica_id), data.replica_directory_id),
        LeaderEpoch(data.current_leader_epoch),
        _snapshot_id(data.snapshot_id),
        data.position,
        wire.max_bytes,
        wire.cluster_id,
    )


def _pieced_to(response: m.FetchSnapshotResponse) -> fetch_snapshot.FetchSnapshotResponse:
    sent = response.snapshot_id
    partition = fetch_snapshot.FetchedPartitionSnapshot(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=sent.end_offset, epoch=sent.epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=_number(response.leader_id), leader_epoch=response.leader_epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    topic = fetch_snapshot.FetchedTopicSnapshot(name=TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic])


def _pieced_from(wire: fetch_snapshot.FetchSnapshotResponse) -> m.FetchSnapshotResponse:
    data = _only(wire, "name")
    return m.FetchSnapshotResponse(
        wire.error_code or data.error_code,
        _node(data.current_leader.leader_id),
        LeaderEpoch(data.current_leader.leader_epoch),
        _snapshot_id(data.snapshot_id),
        data.size,
        data.position,
        bytes(data.unaligned_records),
    )


_TO_WIRE: dict[type, Callable[[Any], Any]] = {
    m.VoteRequest: _vote_to,
    m.VoteResponse: _voted_to,
    m.BeginQuorumEpochRequest: _begin_to,
    m.BeginQuorumEpochResponse: _begun_to,
    m.EndQuorumEpochRequest: _end_to,
    m.EndQuorumEpochResponse: _ended_to,
    m.FetchRequest: _fetch_to,
    m.FetchResponse: _fetched_to,
    m.FetchSnapshotRequest: _piece_to,
    m.FetchSnapshotResponse: _pieced_to,
}

_FROM_WIRE: dict[type, Callable[[Any], Any]] = {
    vote.VoteRequest: _vote_from,
    vote.VoteResponse: _voted_from,
    begin.BeginQuorumEpochRequest: _begin_from,
    begin.BeginQuorumEpochResponse: _begun_from,
    end.EndQuorumEpochRequest: _end_from,
    end.EndQuorumEpochResponse: _ended_from,
    fetch.FetchRequest: _fetch_from,
    fetch.FetchResponse: _fetched_from,
    fetch_snapshot.FetchSnapshotRequest: _piece_from,
    fetch_snapshot.FetchSnapshotResponse: _pieced_from,
}

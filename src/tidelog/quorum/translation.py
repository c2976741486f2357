"""The quorum's messages as Kafka's, and back. There is one topic with one partition: the wrapping
is always the same, and whatever else a peer names is refused as malformed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum import batches
from tidelog.quorum import messages as ours
from tidelog.quorum.ports import EpochEnd, SnapshotId
from tidelog.quorum.voters import Endpoint, ReplicaKey
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    vote,
)

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)
"""Kafka's, which no other topic ever has."""

_NOBODY = -1


def _only(rows: list[Any]) -> Any:
    if len(rows) != 1:
        raise DecodeError(f"{len(rows)} where there is one metadata partition")
    return rows[0]


def _partition(message: Any) -> Any:
    return _only(_only(message.topics).partitions)


def _known(leader_id: int) -> NodeId | None:
    return None if leader_id < 0 else NodeId(leader_id)


def _told(leader_id: NodeId | None) -> int:
    return _NOBODY if leader_id is None else leader_id


# --- requests ---------------------------------------------------------------------------------


def request_to_wire(request: ours.PeerRequest) -> Any:
    return _TO_WIRE[type(request)](request)


def request_from_wire(message: Any) -> ours.Request:
    """`DecodeError` if it is not about the metadata log alone."""
    return _FROM_WIRE[type(message)](message)


def _vote_to_wire(request: ours.VoteRequest) -> vote.VoteRequest:
    partition = vote.PartitionData(
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.replica.node_id,
        replica_directory_id=request.replica.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    return vote.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.node_id,
        topics=[vote.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def _vote_from_wire(message: vote.VoteRequest) -> ours.VoteRequest:
    row: vote.PartitionData = _partition(message)
    return ours.VoteRequest(
        voter=ReplicaKey(NodeId(message.voter_id), row.voter_directory_id),
        replica=ReplicaKey(NodeId(row.replica_id), row.replica_directory_id),
        epoch=LeaderEpoch(row.replica_epoch),
        last_epoch=LeaderEpoch(row.last_offset_epoch),
        last_offset=Offset(row.last_offset),
        pre_vote=row.pre_vote,
        cluster_id=message.cluster_id,
    )


def _begin_to_wire(
    request: ours.BeginQuorumEpochRequest,
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.PartitionData(
        partition_index=0,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.node_id,
        topics=[begin_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin_quorum_epoch.LeaderEndpoint(name=at.name, host=at.host, port=at.port)
            for at in request.endpoints
        ],
    )


def _begin_from_wire(
    message: begin_quorum_epoch.BeginQuorumEpochRequest,
) -> ours.BeginQuorumEpochRequest:
    row: begin_quorum_epoch.PartitionData = _partition(message)
    return ours.BeginQuorumEpochRequest(
        voter=ReplicaKey(NodeId(message.voter_id), row.voter_directory_id),
        leader_id=NodeId(row.leader_id),
        epoch=LeaderEpoch(row.leader_epoch),
        endpoints=tuple(Endpoint(at.name, at.host, at.port) for at in message.leader_endpoints),
        cluster_id=message.cluster_id,
    )


def _end_to_wire(request: ours.EndQuorumEpochRequest) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.PartitionData(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(
                candidate_id=key.node_id, candidate_directory_id=key.directory_id
            )
            for key in request.successors
        ],
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[end_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def _end_from_wire(message: end_quorum_epoch.EndQuorumEpochRequest) -> ours.EndQuorumEpochRequest:
    row: end_quorum_epoch.PartitionData = _partition(message)
    return ours.EndQuorumEpochRequest(
        leader_id=NodeId(row.leader_id),
        epoch=LeaderEpoch(row.leader_epoch),
        successors=tuple(
            ReplicaKey(NodeId(each.candidate_id), each.candidate_directory_id)
            for each in row.preferred_candidates
        ),
        cluster_id=message.cluster_id,
    )


def _fetch_to_wire(request: ours.FetchRequest) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=0,
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
        min_bytes=1,
        max_bytes=request.max_bytes,
        topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _fetch_from_wire(message: fetch.FetchRequest) -> ours.FetchRequest:
    row: fetch.FetchPartition = _partition(message)
    return ours.FetchRequest(
        replica=ReplicaKey(NodeId(message.replica_state.replica_id), row.replica_directory_id),
        epoch=LeaderEpoch(row.current_leader_epoch),
        fetch_offset=Offset(row.fetch_offset),
        last_fetched_epoch=LeaderEpoch(row.last_fetched_epoch),
        high_watermark=Offset(row.high_watermark),
        max_wait_ms=message.max_wait_ms,
        max_bytes=row.partition_max_bytes,
        cluster_id=message.cluster_id,
    )


def _snapshot_to_wire(request: ours.FetchSnapshotRequest) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.PartitionSnapshot(
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=_snapshot_id_to_wire(request.snapshot_id),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=request.max_bytes,
        topics=[fetch_snapshot.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def _snapshot_from_wire(message: fetch_snapshot.FetchSnapshotRequest) -> ours.FetchSnapshotRequest:
    row: fetch_snapshot.PartitionSnapshot = _partition(message)
    return ours.FetchSnapshotRequest(
        replica=ReplicaKey(NodeId(message.replica_id), row.replica_directory_id),
        epoch=LeaderEpoch(row.current_leader_epoch),
        snapshot_id=_snapshot_id_from_wire(row.snapshot_id),
        position=row.position,
        max_bytes=message.max_bytes,
        cluster_id=message.cluster_id,
    )


def _snapshot_id_to_wire(snapshot_id: SnapshotId) -> fetch_snapshot.SnapshotId:
    return fetch_snapshot.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)


def _snapshot_id_from_wire(message: Any) -> SnapshotId:
    return SnapshotId(Offset(message.end_offset), LeaderEpoch(message.epoch))


def _add_from_wire(message: add_raft_voter.AddRaftVoterRequest) -> ours.AddRaftVoterRequest:
    return ours.AddRaftVoterRequest(
        voter=ReplicaKey(NodeId(message.voter_id), message.voter_directory_id),
        endpoints=tuple(Endpoint(at.name, at.host, at.port) for at in message.listeners),
        timeout_ms=message.timeout_ms,
        ack_when_committed=message.ack_when_committed,
        cluster_id=message.cluster_id,
    )


def _remove_from_wire(
    message: remove_raft_voter.RemoveRaftVoterRequest,
) -> ours.RemoveRaftVoterRequest:
    key = ReplicaKey(NodeId(message.voter_id), message.voter_directory_id)
    return ours.RemoveRaftVoterRequest(voter=key, cluster_id=message.cluster_id)


_TO_WIRE: dict[type, Callable[[Any], Any]] = {
    ours.VoteRequest: _vote_to_wire,
    ours.BeginQuorumEpochRequest: _begin_to_wire,
    ours.EndQuorumEpochRequest: _end_to_wire,
    ours.FetchRequest: _fetch_to_wire,
    ours.FetchSnapshotRequest: _snapshot_to_wire,
}

_FROM_WIRE: dict[type, Callable[[Any], ours.Request]] = {
    vote.VoteRequest: _vote_from_wire,
    begin_quorum_epoch.BeginQuorumEpochRequest: _begin_from_wire,
    end_quorum_epoch.EndQuorumEpochRequest: _end_from_wire,
    fetch.FetchRequest: _fetch_from_wire,
    fetch_snapshot.FetchSnapshotRequest: _snapshot_from_wire,
    describe_quorum.DescribeQuorumRequest: lambda message: ours.DescribeQuorumRequest(),
    add_raft_voter.AddRaftVoterRequest: _add_from_wire,
    remove_raft_voter.RemoveRaftVoterRequest: _remove_from_wire,
}


# --- responses --------------------------------------------------------------------------------


def response_to_wire(response: ours.Response) -> Any:
    return _ANSWER_TO_WIRE[type(response)](response)


def response_from_wire(message: Any) -> ours.PeerResponse:
    """`DecodeError` if it is not about the metadata log alone."""
    return _ANSWER_FROM_WIRE[type(message)](message)


def _voted_to_wire(response: ours.VoteResponse) -> vote.VoteResponse:
    row = vote.VotedPartitionData(
        partition_index=0,
        error_code=response.error,
        leader_id=_told(response.leader_id),
        leader_epoch=response.leader_epoch,
        vote_granted=response.is_granted,
    )
    topic = vote.VotedTopicData(topic_name=METADATA_TOPIC, partitions=[row])
    return vote.VoteResponse(topics=[topic])


def _voted_from_wire(message: vote.VoteResponse) -> ours.VoteResponse:
    row: vote.VotedPartitionData = _partition(message)
    return ours.VoteResponse(
        row.error_code, _known(row.leader_id), LeaderEpoch(row.leader_epoch), row.vote_granted
    )


def _begun_to_wire(
    response: ours.BeginQuorumEpochResponse,
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    row = begin_quorum_epoch.BegunPartitionData(
        partition_index=0,
        error_code=response.error,
        leader_id=_told(response.leader_id),
        leader_epoch=response.leader_epoch,
    )
    topic = begin_quorum_epoch.BegunTopicData(topic_name=METADATA_TOPIC, partitions=[row])
    return begin_quorum_epoch.BeginQuorumEpochResponse(topics=[topic])


def _begun_from_wire(
    message: begin_quorum_epoch.BeginQuorumEpochResponse,
) -> ours.BeginQuorumEpochResponse:
    row: begin_quorum_epoch.BegunPartitionData = _partition(message)
    return ours.BeginQuorumEpochResponse(
        row.error_code, _known(row.leader_id), LeaderEpoch(row.leader_epoch)
    )


def _ended_to_wire(
    response: ours.EndQuorumEpochResponse,
) -> end_quorum_epoch.EndQuorumEpochResponse:
    row = end_quorum_epoch.EndedPartitionData(
        partition_index=0,
        error_code=response.error,
        leader_id=_told(response.leader_id),
        leader_epoch=response.leader_epoch,
    )
    topic = end_quorum_epoch.EndedTopicData(topic_name=METADATA_TOPIC, partitions=[row])
    return end_quorum_epoch.EndQuorumEpochResponse(topics=[topic])


def _ended_from_wire(
    message: end_quorum_epoch.EndQuorumEpochResponse,
) -> ours.EndQuorumEpochResponse:
    row: end_quorum_epoch.EndedPartitionData = _partition(message)
    return ours.EndQuorumEpochResponse(
        row.error_code, _known(row.leader_id), LeaderEpoch(row.leader_epoch)
    )


def _fetched_to_wire(response: ours.FetchResponse) -> fetch.FetchResponse:
    row = fetch.PartitionData(
        partition_index=0,
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=_told(response.leader_id), leader_epoch=response.leader_epoch
        ),
        aborted_transactions=None,
        records=b"".join(bytes(batches.encode(batch)) for batch in response.batches),
    )
    if response.diverging is not None:
        row.diverging_epoch = fetch.EpochEndOffset(
            epoch=response.diverging.epoch, end_offset=response.diverging.end_offset
        )
    if response.snapshot_id is not None:
        row.snapshot_id = fetch.SnapshotId(
            end_offset=response.snapshot_id.end_offset, epoch=response.snapshot_id.epoch
        )
    topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[row])
    return fetch.FetchResponse(responses=[topic])


def _fetched_from_wire(message: fetch.FetchResponse) -> ours.FetchResponse:
    row: fetch.PartitionData = _only(_only(message.responses).partitions)
    diverging, snapshot_id = row.diverging_epoch, row.snapshot_id
    records = row.records
    assert records is None or isinstance(records, bytes | bytearray | memoryview)
    return ours.FetchResponse(
        error=row.error_code,
        leader_id=_known(row.current_leader.leader_id),
        leader_epoch=LeaderEpoch(row.current_leader.leader_epoch),
        high_watermark=Offset(row.high_watermark),
        log_start_offset=Offset(row.log_start_offset),
        diverging=(
            EpochEnd(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
            if diverging.epoch >= 0
            else None
        ),
        snapshot_id=_snapshot_id_from_wire(snapshot_id) if snapshot_id.end_offset >= 0 else None,
        batches=batches.decode(records) if records else (),
    )


def _piece_to_wire(response: ours.FetchSnapshotResponse) -> fetch_snapshot.FetchSnapshotResponse:
    row = fetch_snapshot.FetchedPartitionSnapshot(
        index=0,
        error_code=response.error,
        snapshot_id=_snapshot_id_to_wire(response.snapshot_id),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=_told(response.leader_id), leader_epoch=response.leader_epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    topic = fetch_snapshot.FetchedTopicSnapshot(name=METADATA_TOPIC, partitions=[row])
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic])


def _piece_from_wire(message: fetch_snapshot.FetchSnapshotResponse) -> ours.FetchSnapshotResponse:
    row: fetch_snapshot.FetchedPartitionSnapshot = _partition(message)
    data = row.unaligned_records
    assert isinstance(data, bytes | bytearray | memoryview)
    return ours.FetchSnapshotResponse(
        error=row.error_code,
        leader_id=_known(row.current_leader.leader_id),
        leader_epoch=LeaderEpoch(row.current_leader.leader_epoch),
        snapshot_id=_snapshot_id_from_wire(row.snapshot_id),
        size=row.size,
        position=row.position,
        data=bytes(data),
    )


def _described_to_wire(
    response: ours.DescribeQuorumResponse,
) -> describe_quorum.DescribeQuorumResponse:
    row = describe_quorum.DescribedPartitionData(
        partition_index=0,
        error_code=response.error,
        leader_id=_told(response.leader_id),
        leader_epoch=response.leader_epoch,
        high_watermark=response.high_watermark,
        current_voters=[_progress_to_wire(each) for each in response.voters],
        observers=[_progress_to_wire(each) for each in response.observers],
    )
    topic = describe_quorum.DescribedTopicData(topic_name=METADATA_TOPIC, partitions=[row])
    return describe_quorum.DescribeQuorumResponse(
        topics=[topic],
        nodes=[
            describe_quorum.Node(
                node_id=node_id,
                listeners=[
                    describe_quorum.Listener(name=at.name, host=at.host, port=at.port)
                    for at in endpoints
                ],
            )
            for node_id, endpoints in response.endpoints
        ],
    )


def _progress_to_wire(progress: ours.ReplicaProgress) -> describe_quorum.ReplicaState:
    """The times are on the monotonic clock of the leader: of no use to anybody else."""
    return describe_quorum.ReplicaState(
        replica_id=progress.replica.node_id,
        replica_directory_id=progress.replica.directory_id,
        log_end_offset=progress.log_end_offset,
    )


def _added_to_wire(response: ours.AddRaftVoterResponse) -> add_raft_voter.AddRaftVoterResponse:
    return add_raft_voter.AddRaftVoterResponse(
        error_code=response.error, error_message=response.message
    )


def _removed_to_wire(
    response: ours.RemoveRaftVoterResponse,
) -> remove_raft_voter.RemoveRaftVoterResponse:
    return remove_raft_voter.RemoveRaftVoterResponse(
        error_code=response.error, error_message=response.message
    )


_ANSWER_TO_WIRE: dict[type, Callable[[Any], Any]] = {
    ours.VoteResponse: _voted_to_wire,
    ours.BeginQuorumEpochResponse: _begun_to_wire,
    ours.EndQuorumEpochResponse: _ended_to_wire,
    ours.FetchResponse: _fetched_to_wire,
    ours.FetchSnapshotResponse: _piece_to_wire,
    ours.DescribeQuorumResponse: _described_to_wire,
    ours.AddRaftVoterResponse: _added_to_wire,
    ours.RemoveRaftVoterResponse: _removed_to_wire,
}

_ANSWER_FROM_WIRE: dict[type, Callable[[Any], ours.PeerResponse]] = {
    vote.VoteResponse: _voted_from_wire,
    begin_quorum_epoch.BeginQuorumEpochResponse: _begun_from_wire,
    end_quorum_epoch.EndQuorumEpochResponse: _ended_from_wire,
    fetch.FetchResponse: _fetched_from_wire,
    fetch_snapshot.FetchSnapshotResponse: _piece_from_wire,
}

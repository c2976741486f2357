"""What administrators ask of the quorum, from the wire and back: DescribeQuorum, AddRaftVoter,
RemoveRaftVoter. Only the node's side of it: the asking side builds the wire's messages itself.
"""

from __future__ import annotations

from tidelog.model.clock import Now
from tidelog.model.ids import NO_TIMESTAMP, NodeId
from tidelog.quorum import messages as m
from tidelog.quorum.translation import PARTITION, TOPIC
from tidelog.quorum.voters import Endpoint, ReplicaKey
from tidelog.wire.messages import add_raft_voter, describe_quorum, remove_raft_voter


def add_voter_from_wire(wire: add_raft_voter.AddRaftVoterRequest) -> m.AddRaftVoterRequest:
    return m.AddRaftVoterRequest(
        ReplicaKey(NodeId(wire.voter_id), wire.voter_directory_id),
        tuple(Endpoint(each.name, each.host, each.port) for each in wire.listeners),
        wire.timeout_ms,
        wire.ack_when_committed,
        wire.cluster_id,
    )


def add_voter_to_wire(response: m.AddRaftVoterResponse) -> add_raft_voter.AddRaftVoterResponse:
    return add_raft_voter.AddRaftVoterResponse(
        error_code=response.error, error_message=response.message
    )


def remove_voter_from_wire(
    wire: remove_raft_voter.RemoveRaftVoterRequest,
) -> m.RemoveRaftVoterRequest:
    return m.RemoveRaftVoterRequest(
        ReplicaKey(NodeId(wire.voter_id), wire.voter_directory_id), wire.cluster_id
    )


def remove_voter_to_wire(
    response: m.RemoveRaftVoterResponse,
) -> remove_raft_voter.RemoveRaftVoterResponse:
    return remove_raft_voter.RemoveRaftVoterResponse(
        error_code=response.error, error_message=response.message
    )


def describe_to_wire(
    response: m.DescribeQuorumResponse, now: Now
) -> describe_quorum.DescribeQuorumResponse:
    """Times of the monotonic clock become times of day."""

    def at(monotonic_ms: float | None) -> int:
        if monotonic_ms is None:
            return NO_TIMESTAMP
        return int(now.wall_ms - (now.monotonic_ms - monotonic_ms))

    def told(progress: m.ReplicaProgress) -> describe_quorum.ReplicaState:
        return describe_quorum.ReplicaState(
            replica_id=progress.replica.node_id,
            replica_directory_id=progress.replica.directory_id,
            log_end_offset=progress.log_end_offset,
            last_fetch_timestamp=at(progress.last_fetch_ms),
            last_caught_up_timestamp=at(progress.last_caught_up_ms),
        )

    partition = describe_quorum.DescribedPartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=-1 if response.leader_id is None else response.leader_id,
        leader_epoch=response.leader_epoch,
        high_watermark=response.high_watermark,
        current_voters=[told(progress) for progress in response.voters],
        observers=[told(progress) for progress in response.observers],
    )
    topic = describe_quorum.DescribedTopicData(topic_name=TOPIC, partitions=[partition])
    nodes = [
        describe_quorum.Node(
            node_id=node_id,
            listeners=[
                describe_quorum.Listener(name=each.name, host=each.host, port=each.port)
                for each in endpoints
            ],
        )
        for node_id, endpoints in response.endpoints
    ]
    return describe_quorum.DescribeQuorumResponse(topics=[topic], nodes=nodes)

"""The quorum's APIs on a node that is alone: it is its own quorum, of one.

DescribeQuorum says so. What voters say to each other is not for it, and it takes no other voter in
as it is: a node that is to grow into a cluster is started with `controller.quorum.voters`. On a
member of a cluster all of these go to its replica of the metadata log (`cluster_member.receive`).
"""

from __future__ import annotations

from typing import Any

from tidelog.broker.state import CLOSE, BrokerState, Call, Sentinel
from tidelog.model.errors import ErrorCode
from tidelog.quorum.translation import TOPIC
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.wire.messages.describe_quorum import (
    DescribedPartitionData,
    DescribedTopicData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
)
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterResponse

_WHY = "this node is alone: start it with controller.quorum.voters to let it have company"


def refuse(state: BrokerState, call: Call, request: Any) -> Sentinel:
    return CLOSE


def refuse_voter(
    state: BrokerState, call: Call, request: Any
) -> AddRaftVoterResponse | RemoveRaftVoterResponse:
    is_new = isinstance(request, AddRaftVoterRequest)
    made = AddRaftVoterResponse if is_new else RemoveRaftVoterResponse
    return made(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_WHY)


def describe(
    state: BrokerState, call: Call, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    end = state.journal.last_offset + 1
    me = ReplicaState(replica_id=state.config.node_id, log_end_offset=end)
    partition = DescribedPartitionData(
        partition_index=0,
        leader_id=state.config.node_id,
        leader_epoch=0,
        high_watermark=state.journal.committed_offset,
        current_voters=[me],
        observers=[],
    )
    topic = DescribedTopicData(topic_name=TOPIC, partitions=[partition])
    return DescribeQuorumResponse(topics=[topic])

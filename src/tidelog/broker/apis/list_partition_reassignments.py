"""ListPartitionReassignments: what is being moved, by the committed facts of the controller."""

from __future__ import annotations

from tidelog.broker.controller_calls import active_controller
from tidelog.broker.state import BrokerState, Call
from tidelog.controller.reassignments import list_reassignments
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    state: BrokerState, call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if active_controller(state) is None:
        error = ErrorCode.NOT_CONTROLLER
        return ListPartitionReassignmentsResponse(
            error_code=error, error_message=error.explanation, topics=[]
        )
    names = None
    if request.topics is not None:
        names = [
            TopicPartition(topic.name, partition)
            for topic in request.topics
            for partition in topic.partition_indexes
        ]
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for moving in list_reassignments(state.image, names):
        ongoing = OngoingPartitionReassignment(
            partition_index=moving.key.partition,
            replicas=list(moving.replicas),
            adding_replicas=list(moving.adding_replicas),
            removing_replicas=list(moving.removing_replicas),
        )
        by_topic.setdefault(moving.name.topic, []).append(ongoing)
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            OngoingTopicReassignment(name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )

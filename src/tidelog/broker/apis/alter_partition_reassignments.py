"""AlterPartitionReassignments: move partitions to other nodes, or stop moving them."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.controller_calls import active_controller, answer_once_committed
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.controller.reassignments import CANCEL, Reassignment, ReassignmentOutcome
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicPartition
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    state: BrokerState, call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse | Sentinel:
    controller = active_controller(state)
    may_change = request.allow_replication_factor_change
    if controller is None:
        error = ErrorCode.NOT_CONTROLLER
        return AlterPartitionReassignmentsResponse(
            error_code=error,
            error_message=error.explanation,
            allow_replication_factor_change=may_change,
            responses=[],
        )
    asked = [
        Reassignment(TopicPartition(topic.name, partition.partition_index), _target(partition))
        for topic in request.topics
        for partition in topic.partitions
    ]
    decision = controller.reassign(asked, may_change_factor=may_change)
    response = AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=may_change,
        responses=_responses(decision.response),
    )
    return answer_once_committed(
        state, call, decision, response, fail=_fail, timeout_ms=request.timeout_ms
    )


def _target(partition: ReassignablePartition) -> tuple[NodeId, ...] | None:
    if partition.replicas is None:
        return CANCEL
    return tuple(NodeId(node_id) for node_id in partition.replicas)


def _responses(outcomes: Sequence[ReassignmentOutcome]) -> list[ReassignableTopicResponse]:
    by_topic: dict[str, list[ReassignablePartitionResponse]] = {}
    for outcome in outcomes:
        result = ReassignablePartitionResponse(
            partition_index=outcome.name.partition,
            error_code=outcome.error,
            error_message=outcome.message,
        )
        by_topic.setdefault(outcome.name.topic, []).append(result)
    return [
        ReassignableTopicResponse(name=name, partitions=results)
        for name, results in by_topic.items()
    ]


def _fail(response: AlterPartitionReassignmentsResponse, error: ErrorCode) -> None:
    for topic in response.responses:
        for result in topic.partitions:
            if result.error_code is ErrorCode.NONE:
                result.error_code, result.error_message = error, error.explanation

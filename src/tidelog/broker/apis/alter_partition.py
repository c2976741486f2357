"""AlterPartition: a leader asks for other in-sync replicas.

An error about one partition carries -1 for all numbers: nothing is known to have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tidelog.broker.controller_calls import active_controller, answer_once_committed
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.controller.isr_changes import IsrChange, IsrMember, IsrOutcome
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_LEADER, NodeId, PartitionKey, TopicId
from tidelog.wire.messages.alter_partition import (
    AlteredPartitionData,
    AlteredTopicData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
)


def handle(
    state: BrokerState, call: Call, request: AlterPartitionRequest
) -> AlterPartitionResponse | Sentinel:
    controller = active_controller(state)
    if controller is None:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER, topics=[])
    changes = [
        IsrChange(
            PartitionKey(TopicId(topic.topic_id), partition.partition_index),
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=_members(partition),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    decision = controller.alter_partitions(NodeId(request.broker_id), request.broker_epoch, changes)
    answer = decision.response
    response = AlterPartitionResponse(error_code=answer.error, topics=_topics(answer.outcomes))
    return answer_once_committed(state, call, decision, response, fail=_fail)


def _members(partition: PartitionData) -> tuple[IsrMember, ...]:
    """Before version 3 without their broker epochs."""
    if partition.new_isr_with_epochs:
        return tuple(
            IsrMember(NodeId(member.broker_id), member.broker_epoch)
            for member in partition.new_isr_with_epochs
        )
    return tuple(IsrMember(NodeId(node_id)) for node_id in partition.new_isr)


def _topics(outcomes: Sequence[IsrOutcome]) -> list[AlteredTopicData]:
    by_topic: dict[UUID, list[AlteredPartitionData]] = {}
    for outcome in outcomes:
        by_topic.setdefault(outcome.key.topic_id, []).append(_partition(outcome))
    return [
        AlteredTopicData(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in by_topic.items()
    ]


def _partition(outcome: IsrOutcome) -> AlteredPartitionData:
    state = outcome.state
    if state is None:
        return AlteredPartitionData(
            partition_index=outcome.key.partition,
            error_code=outcome.error,
            leader_id=NO_LEADER,
            leader_epoch=NO_EPOCH,
            partition_epoch=-1,
        )
    return AlteredPartitionData(
        partition_index=state.key.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
    )


def _fail(response: AlterPartitionResponse, error: ErrorCode) -> None:
    response.error_code, response.topics = error, []

"""OffsetFetch: how far groups have read. Never an offset that could still be lost.

Up to version 7 a request is about one group and has fields of its own for it; it is asked and
answered here as one of several.
"""

from __future__ import annotations

from typing import Any

from tidelog.broker.coordinators import Question
from tidelog.broker.group_requests import put
from tidelog.broker.state import BrokerState, Call
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_FIRST_WITH_GROUPS = 8


def handle(state: BrokerState, call: Call, request: OffsetFetchRequest) -> Any:
    if call.slot.header.api_version >= _FIRST_WITH_GROUPS:
        questions = [_question(call, group) for group in request.groups]
        return put(state, call, questions, lambda groups: OffsetFetchResponse(groups=groups))
    return put(state, call, [_question(call, _single_group(request))], _single_response)


def _question(call: Call, group: OffsetFetchRequestGroup) -> Question:
    return Question(
        group.group_id,
        lambda coordinator, ticket: coordinator.offset_fetch(call.now, ticket, group),
        lambda error: OffsetFetchResponseGroup(group_id=group.group_id, error_code=error),
    )


def _single_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _single_response(groups: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    group = groups[0]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )

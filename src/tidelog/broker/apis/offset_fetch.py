"""OffsetFetch: how far groups have read. Never an offset that could still be lost.

Up to version 7 a request is about one group and has fields of its own for it; it is asked and
answered here as one of several. Version 1 has no place for an error of the whole group, and so
tells it of each partition.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tidelog.broker.group_requests import put
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
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
    build = partial(_single_response, request)
    return put(state, call, [_question(call, _single_group(request))], build)


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


def _single_response(
    request: OffsetFetchRequest, groups: list[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    group = groups[0]
    if group.error_code is not ErrorCode.NONE:
        topics = [_refused_topic(topic, group.error_code) for topic in request.topics or ()]
        return OffsetFetchResponse(error_code=group.error_code, topics=topics)
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


def _refused_topic(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, error_code=error
            )
            for index in topic.partition_indexes
        ],
    )

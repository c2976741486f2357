"""DescribeTopicPartitions: topics in the order of their names, a page of partitions at a time.

A cursor names the topic and partition to begin with. Eligible leaders (KIP-966) are those who may
lead beyond the in-sync replicas; the last known ones would need an unclean election.
"""

from __future__ import annotations

from tidelog.broker.authorized_operations import ON_TOPIC
from tidelog.broker.state import BrokerState, Call
from tidelog.metadata.image import Image, PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_MAX_PARTITIONS = 2000
"""Kafka's `max.request.partition.size.limit`."""


def handle(
    state: BrokerState, call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = state.image
    named = {topic.name: None for topic in request.topics}
    names = sorted(named) if named else sorted(image.topics)
    cursor = request.cursor
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    room = max(1, min(request.response_partition_limit, _MAX_PARTITIONS))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(DescribeTopicPartitionsResponseTopic(error_code=unknown, name=name))
            continue
        first = 0
        if cursor is not None and cursor.topic_name == name:
            first = max(0, cursor.partition_index)
        if room == 0:
            return _page(topics, Cursor(topic_name=name, partition_index=first))
        shown = topic.partitions[first : first + room]
        room -= len(shown)
        topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=[_partition(image, partition) for partition in shown],
                topic_authorized_operations=ON_TOPIC,
            )
        )
        if first + len(shown) < len(topic.partitions):
            return _page(topics, Cursor(topic_name=name, partition_index=first + len(shown)))
    return _page(topics, None)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _partition(image: Image, state: PartitionState) -> DescribeTopicPartitionsResponsePartition:
    has_leader = state.leader != NO_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=state.key.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=list(image.offline_replicas(state)),
    )

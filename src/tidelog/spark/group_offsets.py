"""A group's committed offsets, kept by somebody who is no member: how lag tools see Spark.

The coordinator is looked up for each call: it is called once per batch of a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.spark.connection import Address
from tidelog.spark.errors import StaleView, refusal
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from tidelog.spark.cluster import Cluster

_COMMITS_BY_NAME = 9
_FETCHES_BY_NAME = 9
"""Later versions name topics by id only."""


def commit(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """All of `offsets`, or a `PipelineError`."""
    if not offsets:
        return
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offsets[TopicPartition(topic, partition)],
                    )
                    for partition in numbers
                ],
            )
            for topic, numbers in _by_topic(offsets).items()
        ],
    )

    def attempt() -> None:
        answer = _ask_coordinator(cluster, group, request, at_most=_COMMITS_BY_NAME)
        for topic in answer.topics:
            for row in topic.partitions:
                _check(group, row.error_code)

    cluster.retrying(f"group {group!r}", attempt)


def committed(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """What the group has committed for `partitions`; without those it has not."""
    topics = _by_topic(partitions)
    request = OffsetFetchRequest(
        group_id=group,
        topics=[
            OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=[
                    OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                    for name, numbers in topics.items()
                ],
            )
        ],
    )

    def attempt() -> dict[TopicPartition, int]:
        answer = _ask_coordinator(cluster, group, request, at_most=_FETCHES_BY_NAME)
        found = answer.groups[0] if answer.groups else answer
        _check(group, found.error_code)
        return {
            TopicPartition(topic.name, row.partition_index): row.committed_offset
            for topic in found.topics
            for row in topic.partitions
            if row.committed_offset >= 0
        }

    return cluster.retrying(f"group {group!r}", attempt)


def _ask_coordinator(cluster: Cluster, group: str, request: Any, *, at_most: int) -> Any:
    answer = cluster.ask_anyone(FindCoordinatorRequest(key=group, coordinator_keys=[group]))
    row = answer.coordinators[0] if answer.coordinators else answer
    _check(group, row.error_code)
    return cluster.ask_at(Address(row.host, row.port), request, at_most=at_most)


def _check(group: str, code: ErrorCode) -> None:
    if code is ErrorCode.NONE:
        return
    # A topic that was there a moment ago is not waited for: it was deleted.
    if code.is_retriable and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise StaleView(code.explanation)
    raise refusal(f"group {group!r}", code)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found

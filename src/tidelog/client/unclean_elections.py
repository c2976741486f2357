"""What an unclean election would be decided on: how much of a log each replica has.

Asked of each node by itself, since nobody leads the partition: ListOffsets with the replica id that
Kafka's own tools look into logs with. A node that is down, or too old to answer, tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidelog.client import direct
from tidelog.client.cluster_admin import ClusterNode, ClusterView
from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tidelog.wire.messages.list_offsets import (
    DEBUGGING_REPLICA,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1


class ReplicaLog(NamedTuple):
    """One replica; the numbers are None where it did not say. `has_doubt`: it had all committed
    records once, and has come back from a crash or with another directory since."""

    node_id: int
    is_up: bool
    last_epoch: int | None
    end_offset: int | None
    high_watermark: int | None
    has_doubt: bool


class Contest(NamedTuple):
    """A partition that nobody leads, with its replicas in order. `last_known` were eligible to
    lead, the last of them at the end."""

    replicas: tuple[ReplicaLog, ...]
    last_known: tuple[int, ...]


def contests(
    connection: Connection, view: ClusterView, places: Iterable[TopicPartition]
) -> dict[TopicPartition, Contest]:
    """Of these partitions, what their replicas have."""
    wanted = list(places)
    described = _described(connection, wanted)
    logs: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
    watermarks: dict[tuple[TopicPartition, int], int] = {}
    for node in view.nodes.values():
        kept = [place for place in wanted if node.node_id in described[place].replica_nodes]
        if node.is_fenced or not kept:
            continue
        for place, row in _asked(connection, node, kept, _READ_UNCOMMITTED).items():
            logs[place, node.node_id] = (row.leader_epoch, row.offset)
        for place, row in _asked(connection, node, kept, _READ_COMMITTED).items():
            watermarks[place, node.node_id] = row.offset

    def replica(place: TopicPartition, node_id: int) -> ReplicaLog:
        epoch, end = logs.get((place, node_id), (None, None))
        node = view.nodes.get(node_id)
        return ReplicaLog(
            node_id,
            is_up=node is not None and not node.is_fenced,
            last_epoch=epoch,
            end_offset=end,
            high_watermark=watermarks.get((place, node_id)),
            has_doubt=node_id in (described[place].last_known_elr or ()),
        )

    return {
        place: Contest(
            tuple(replica(place, node_id) for node_id in described[place].replica_nodes),
            tuple(described[place].last_known_elr or ()),
        )
        for place in wanted
    }


def _described(connection: Connection, places: list[TopicPartition]) -> dict[TopicPartition, Any]:
    names = sorted({place.topic for place in places})
    found: dict[TopicPartition, Any] = {}
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], cursor=cursor
        )
        answer = direct.ask_any(connection, request)
        for topic in answer.topics:
            for row in topic.partitions:
                found[TopicPartition(topic.name, row.partition_index)] = row
        cursor = answer.next_cursor
        if cursor is None:
            break
    missing = [place for place in places if place not in found]
    if missing:
        raise ClientError(f"{missing[0]} is there no more: look again")
    return found


def _asked(
    connection: Connection, node: ClusterNode, places: list[TopicPartition], isolation: int
) -> dict[TopicPartition, Any]:
    """What the node says of its replicas, as far as it does."""
    topics: dict[str, ListOffsetsTopic] = {}
    for topic, partition in places:
        row = ListOffsetsPartition(partition_index=partition, timestamp=LATEST_TIMESTAMP)
        topics.setdefault(topic, ListOffsetsTopic(name=topic, partitions=[])).partitions.append(row)
    request = ListOffsetsRequest(
        replica_id=DEBUGGING_REPLICA, isolation_level=isolation, topics=list(topics.values())
    )
    try:
        answer = direct.ask(connection, (node.host, node.port), request)
    except ClientError:
        return {}
    return {
        TopicPartition(topic.name, row.partition_index): row
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code is ErrorCode.NONE
    }

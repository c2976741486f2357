"""A change of the image costs what it changes, however much else there is. Counted, not timed."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import pytest
from tests.support.call_counts import calls_of

from tidelog.bench.images import image_of, topic_id, topic_name
from tidelog.metadata.image import Image
from tidelog.metadata.persistent import Buckets
from tidelog.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.model.ids import NodeId

NEW = UUID(int=1)
CHANGES: dict[str, list[MetadataRecord]] = {
    "an ISR": [PartitionChangeRecord(topic_id=topic_id(3), partition=1, isr=[4])],
    "a leader": [PartitionChangeRecord(topic_id=topic_id(3), partition=1, leader=2)],
    "replicas": [PartitionChangeRecord(topic_id=topic_id(3), partition=1, replicas=[7, 8, 9])],
    "a topic that comes": [
        TopicRecord(name="new", topic_id=NEW),
        PartitionRecord(
            topic_id=NEW, partition=0, replicas=[1, 2], isr=[1], leader=1, leader_epoch=0
        ),
    ],
    "a topic that goes": [RemoveTopicRecord(topic_id=topic_id(3))],
}


@pytest.fixture(scope="module")
def small() -> Image:
    return image_of(nodes=10, topics=100, partitions=2)


@pytest.fixture(scope="module")
def large() -> Image:
    return image_of(nodes=10, topics=10_000, partitions=2)


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_enters_as_few_functions_in_a_large_image_as_in_a_small_one(
    small: Image, large: Image, what: str
) -> None:
    records = CHANGES[what]
    few = calls_of(lambda: small.replay(records))
    assert calls_of(lambda: large.replay(records)) <= few + 10
    assert few < 400


def _copied(before: Buckets[Any, Any], after: Buckets[Any, Any]) -> int:
    """References to buckets and entries that the one after does not share."""
    if before is after:
        return 0
    pairs = list(zip(before._buckets, after._buckets, strict=True))
    return len(pairs) + sum(len(copy) for bucket, copy in pairs if copy is not bucket)


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_copies_few_entries_of_a_large_image(large: Image, what: str) -> None:
    after, _ = large.replay(CHANGES[what])
    copied = _copied(large.topics, after.topics) + _copied(large.names, after.names)
    for node_id, holding in large.holdings.items():
        copied += _copied(holding.kept, after.holdings[node_id].kept)
    assert copied < 2_500


def test_the_partitions_of_a_node_are_those_it_keeps_in_the_order_of_creation(large: Image) -> None:
    moved, _ = large.replay(CHANGES["replicas"])
    assert moved.topics[topic_name(3)].partitions[1].replicas == (7, 8, 9)
    for node_id in map(NodeId, range(10)):
        expected = [state for state in moved.partitions() if node_id in state.replicas]
        assert moved.partitions_on(node_id) == expected
        assert moved.leads_any(node_id)
    assert moved.partitions_on(NodeId(77)) == []
    assert not moved.leads_any(NodeId(77))


def test_finding_the_partitions_of_a_node_looks_at_no_others() -> None:
    alike = [image_of(nodes=n, topics=10 * n, partitions=10) for n in (10, 100)]
    few, many = (calls_of(partial(image.partitions_on, NodeId(3))) for image in alike)
    assert len(alike[0].partitions_on(NodeId(3))) == len(alike[1].partitions_on(NodeId(3))) == 300
    assert many <= few + 100

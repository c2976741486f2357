"""The image of a cluster: changes, snapshots, old logs, and the rules that must never break."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.support.cluster_model import ClusterModel

from tidelog.metadata.image import Image, Listener, PartitionState, Resource
from tidelog.metadata.persistent import PersistentMap
from tidelog.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    ListenerRecord,
    MetadataRecord,
    NodeChangeRecord,
    NodeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    ResourceConfigRecord,
    TopicRecord,
    UnregisterNodeRecord,
    decode_record,
    encode_record,
)
from tidelog.model.ids import NO_LEADER, NO_TOPIC_ID, NodeId, PartitionKey, TopicId
from tidelog.model.limits import MAX_REMOVED_TOPICS

ORDERS = UUID(int=1)
KEY = PartitionKey(TopicId(ORDERS), 0)


def node(node_id: int, epoch: int = 1, *, is_fenced: bool = False) -> NodeRecord:
    return NodeRecord(
        node_id=node_id,
        host="h",
        port=9092,
        rack="r",
        epoch=epoch,
        incarnation_id=UUID(int=epoch),
        is_fenced=is_fenced,
        listeners=[ListenerRecord(name="A", host="h", port=9092, security_protocol=0)],
    )


PARTITION = PartitionRecord(
    topic_id=ORDERS, partition=0, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1, leader_epoch=4
)
CLUSTER: list[MetadataRecord] = [
    ClusterRecord(cluster_id="c"),
    *(node(n, epoch=n) for n in (1, 2, 3)),
    ConfigRecord(topic_id=NO_TOPIC_ID, name="min.insync.replicas", value="2"),
    TopicRecord(name="orders", topic_id=ORDERS),
    PARTITION,
]


def change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=ORDERS, partition=0, **fields)


def image_of(*more: MetadataRecord) -> Image:
    image, _ = Image().replay([*CLUSTER, *more])
    return image


def state_of(image: Image) -> PartitionState:
    state = image.partition(KEY)
    assert state is not None
    return state


ALL_KINDS = [
    *CLUSTER,
    change(isr=[1], leader=2, elr=[3], last_known_elr=[2], replicas=[1], adding_replicas=[4]),
    change(removing_replicas=[]),
    NodeChangeRecord(node_id=1, epoch=1, is_fenced=1),
    NodeChangeRecord(node_id=1, epoch=1, is_shutting_down=0),
    UnregisterNodeRecord(node_id=1, epoch=1),
    ResourceConfigRecord(resource_type=32, resource_name="g", name="a", value="1"),
    ResourceConfigRecord(resource_type=4, resource_name="1", name="a", value=None),
    RemoveTopicRecord(topic_id=ORDERS, name="orders"),
]


@pytest.mark.parametrize("record", ALL_KINDS)
def test_a_record_survives_its_bytes(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("data", "record"),
    [
        ("0100026300", ClusterRecord(cluster_id="c")),
        (
            "02000000000102680000238400000000000000000700",
            NodeRecord(node_id=1, host="h", port=9092, rack=None, epoch=7),
        ),
        (
            f"0400{ORDERS.hex}00000000020000000102000000010000000100000004" + "00",
            PartitionRecord(
                topic_id=ORDERS, partition=0, replicas=[1], isr=[1], leader=1, leader_epoch=4
            ),
        ),
        (f"0600{ORDERS.hex}00", RemoveTopicRecord(topic_id=ORDERS)),
    ],
)
def test_records_of_the_first_release_are_read(data: str, record: MetadataRecord) -> None:
    assert decode_record(bytes.fromhex(data)) == record


def test_a_change_carries_only_what_changed() -> None:
    before = state_of(image_of())
    after = state_of(image_of(change(isr=[1, 2])))
    assert after == replace(before, isr=(NodeId(1), NodeId(2)), partition_epoch=1)
    assert len(encode_record(change(isr=[1, 2]))) < len(encode_record(PARTITION)) - 20


def test_a_named_leader_gets_the_next_epoch_even_if_it_is_the_same() -> None:
    state = state_of(image_of(change(leader=1)))
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 5, 1)
    state = state_of(image_of(change(leader=NO_LEADER, isr=[], elr=[1])))
    assert (state.leader, state.leader_epoch) == (NO_LEADER, 5)


def test_an_old_logs_whole_record_never_takes_the_partition_epoch_back() -> None:
    state = state_of(image_of(change(isr=[1]), change(isr=[1, 2]), PARTITION))
    assert (state.partition_epoch, state.isr) == (3, (1, 2, 3))


def test_nodes_are_fenced_shut_down_and_forgotten() -> None:
    fenced = image_of(NodeChangeRecord(node_id=3, epoch=3, is_fenced=1))
    assert (fenced.nodes[NodeId(3)].is_fenced, fenced.is_usable(NodeId(3))) == (True, False)
    leaving = image_of(NodeChangeRecord(node_id=3, epoch=3, is_shutting_down=1))
    assert not leaving.nodes[NodeId(3)].is_fenced
    assert [n.node_id for n in leaving.usable_nodes()] == [1, 2]
    gone = image_of(UnregisterNodeRecord(node_id=3, epoch=3))
    assert (sorted(gone.nodes), gone.last_broker_epoch) == ([1, 2], 3)
    assert gone.offline_replicas(state_of(gone)) == [3]
    assert gone.nodes[NodeId(1)].listeners == (Listener("A", "h", 9092),)


def test_a_delta_tells_before_and_after_of_the_whole_batch() -> None:
    _, delta = image_of().replay(
        [
            node(3, epoch=9, is_fenced=True),
            change(isr=[1, 2]),
            change(leader=2),
            NodeChangeRecord(node_id=3, epoch=9, is_fenced=0),
        ]
    )
    moved = delta.partitions[KEY]
    assert moved.before is not None
    assert (moved.before.isr, moved.after.isr) == ((1, 2, 3), (1, 2))
    assert (moved.is_new, moved.has_new_leader_epoch, moved.has_new_isr) == (False, True, True)
    assert not moved.has_new_replicas
    changed = delta.nodes[NodeId(3)]
    assert changed.before is not None
    assert changed.after is not None
    assert (changed.before.epoch, changed.after.epoch) == (3, 9)


def test_partitions_of_a_removed_topic_are_in_no_delta() -> None:
    _, delta = image_of().replay([change(isr=[1]), RemoveTopicRecord(topic_id=ORDERS)])
    assert (delta.partitions, delta.removed) == ({}, {ORDERS: "orders"})


def test_the_clusters_default_holds_where_the_topic_says_nothing() -> None:
    image = image_of()
    assert image.min_isr(state_of(image)) == 2
    image = image_of(ConfigRecord(topic_id=ORDERS, name="min.insync.replicas", value="7"))
    assert image.min_isr(state_of(image)) == 3
    image = image_of(ConfigRecord(topic_id=NO_TOPIC_ID, name="min.insync.replicas", value=None))
    assert image.min_isr(state_of(image)) == 1


@pytest.mark.parametrize(
    "broken",
    [
        [change(leader=3, isr=[1, 2])],
        [change(isr=[1, 2, 9])],
        [change(isr=[1, 1])],
        [change(isr=[1], elr=[1])],
        [change(elr=[9])],
        [change(isr=[1, 2], elr=[3])],
        [change(isr=[1], elr=[2], last_known_elr=[2])],
        [change(adding_replicas=[4])],
        [change(adding_replicas=[3], removing_replicas=[3])],
        [NodeChangeRecord(node_id=2, epoch=2, is_fenced=1)],
        [UnregisterNodeRecord(node_id=2, epoch=2)],
        [
            change(isr=[1], elr=[2]),
            ConfigRecord(topic_id=ORDERS, name="min.insync.replicas", value="1"),
        ],
        [
            change(isr=[1], elr=[2]),
            ConfigRecord(topic_id=NO_TOPIC_ID, name="min.insync.replicas", value="1"),
        ],
    ],
)
def test_a_broken_rule_is_seen_also_after_the_image_before_was_right(
    broken: list[MetadataRecord],
) -> None:
    before = image_of()
    before.validate()
    after, _ = before.replay(broken)
    with pytest.raises(AssertionError):
        after.validate()
    after, _ = before.replay(broken)
    with pytest.raises(AssertionError):
        after.validate(whole=True)


def test_what_was_found_right_is_not_looked_at_again() -> None:
    image = image_of()
    image.validate()
    broken = replace(state_of(image), leader=NodeId(9))
    topic = replace(image.topics["orders"], partitions=(broken,))
    unnoticed = replace(image, topics=PersistentMap({"orders": topic}))
    unnoticed.validate()
    with pytest.raises(AssertionError):
        unnoticed.validate(whole=True)


@pytest.mark.parametrize("seed", range(5))
def test_a_snapshot_makes_an_equal_image(seed: int) -> None:
    model = ClusterModel(seed)
    model.run(60)
    records = [decode_record(encode_record(record)) for record in model.image.to_records()]
    copy, _ = Image().replay(records)
    assert copy == model.image
    copy.validate(whole=True)
    whole, _ = Image().replay(model.driver.log)
    assert whole == model.image


def test_removed_topics_outlive_a_snapshot_but_not_without_end() -> None:
    image = image_of(RemoveTopicRecord(topic_id=ORDERS))
    copy, _ = Image().replay(image.to_records())
    assert copy.removed == {ORDERS: "orders"}
    more = [RemoveTopicRecord(topic_id=UUID(int=n + 10)) for n in range(MAX_REMOVED_TOPICS)]
    image, _ = image.replay(more)
    assert len(image.removed) == MAX_REMOVED_TOPICS
    assert ORDERS not in image.removed


def test_settings_of_nodes_and_groups_are_kept_in_a_snapshot_until_they_are_taken_away() -> None:
    group = ResourceConfigRecord(resource_type=32, resource_name="g", name="a", value="1")
    node_1 = ResourceConfigRecord(resource_type=4, resource_name="1", name="a", value="2")
    image = image_of(group, node_1)
    assert dict(image.configs_of(Resource(32, "g"))) == {"a": "1"}
    assert dict(image.configs_of(Resource(4, "1"))) == {"a": "2"}
    assert dict(image.configs_of(Resource(4, "2"))) == {}
    copied, _ = Image().replay(image.to_records())
    assert copied == image
    without, _ = image.replay([replace(group, value=None), replace(node_1, value=None)])
    assert without.resource_configs == {}

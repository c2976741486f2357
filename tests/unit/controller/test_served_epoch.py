"""A node may vouch for its logs with any epoch since it was last let in."""

from __future__ import annotations

from uuid import UUID

from tidelog.controller.node_changes import plan_unfencing
from tidelog.controller.registry import Registration, decide_register
from tidelog.metadata.image import Image, Listener
from tidelog.metadata.records import ClusterRecord, PartitionRecord, TopicRecord
from tidelog.model.ids import BrokerEpoch, NodeId
from tidelog.model.safeguards import ALL_SAFEGUARDS

ONE, TWO = NodeId(1), NodeId(2)
TOPIC = UUID(int=9)


def registered(image: Image, node_id: NodeId, *, previous: int, lives: int) -> Image:
    asked = Registration(
        node_id,
        listeners=(Listener("PLAINTEXT", "host", 9092),),
        incarnation_id=UUID(int=100 * node_id + lives),
        previous_epoch=BrokerEpoch(previous),
        has_crashed=True,
    )
    decision = decide_register(image, asked, has_session=False)
    return image.replay(decision.records)[0]


def let_in(image: Image, node_id: NodeId) -> Image:
    return image.replay(plan_unfencing(image, node_id, safeguards=ALL_SAFEGUARDS))[0]


def cluster() -> Image:
    image, _ = Image().replay([ClusterRecord(cluster_id="c")])
    for node_id in (ONE, TWO):
        image = let_in(registered(image, node_id, previous=-1, lives=0), node_id)
    both = [int(ONE), int(TWO)]
    return image.replay(
        [
            TopicRecord(name="t", topic_id=TOPIC),
            PartitionRecord(
                topic_id=TOPIC, partition=0, replicas=both, isr=both, leader=1, leader_epoch=0
            ),
        ]
    )[0]


def eligible(image: Image) -> set[NodeId]:
    state = image.topics["t"].partitions[0]
    return {*state.isr, *state.elr}


def test_a_node_that_crashed_before_it_was_let_in_vouches_with_its_older_epoch() -> None:
    image = cluster()
    epoch = image.nodes[ONE].epoch
    image = registered(image, TWO, previous=image.nodes[TWO].epoch, lives=1)
    image = registered(image, ONE, previous=epoch, lives=1)
    image = registered(image, ONE, previous=epoch, lives=2)
    assert image.nodes[ONE].served_epoch == epoch < image.nodes[ONE].epoch
    assert ONE in eligible(image)


def test_an_epoch_from_before_it_was_last_let_in_is_an_old_directory() -> None:
    image = cluster()
    old = image.nodes[ONE].epoch
    image = registered(image, TWO, previous=image.nodes[TWO].epoch, lives=1)
    image = let_in(registered(image, ONE, previous=old, lives=1), ONE)
    image = registered(image, ONE, previous=old, lives=2)
    assert ONE not in eligible(image)


def test_an_empty_directory_vouches_for_nothing() -> None:
    image = cluster()
    image = registered(image, TWO, previous=image.nodes[TWO].epoch, lives=1)
    image = registered(image, ONE, previous=-1, lives=1)
    assert ONE not in eligible(image)

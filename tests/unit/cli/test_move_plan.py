"""The cluster as it is told becomes an image that planners understand."""

from __future__ import annotations

from tidelog.cli.move_plan import Change, changes_of, image_of, plan_text
from tidelog.client.admin import Partition, Topic
from tidelog.client.cluster_admin import ClusterNode, Move
from tidelog.controller.reassignments import Reassignment, plan_drain, plan_spread
from tidelog.metadata.image import Image
from tidelog.model.ids import NodeId, TopicPartition


def a_node(node_id: int, *, rack: str | None = None, is_fenced: bool = False) -> ClusterNode:
    return ClusterNode(node_id, f"host{node_id}", 9092, rack, is_fenced)


def an_image(moves: dict[TopicPartition, Move] | None = None) -> Image:
    """Two partitions on nodes 1 and 2; node 3 is empty, node 4 is away."""
    topic = Topic("orders", (Partition(0, 1, (1, 2), (1, 2)), Partition(1, 2, (2, 1), (2, 1))))
    nodes = [a_node(1), a_node(2), a_node(3), a_node(4, is_fenced=True)]
    return image_of(nodes, [topic], moves or {})


def test_the_image_has_nodes_replicas_and_leaders() -> None:
    image = an_image()
    assert [node.node_id for node in image.usable_nodes()] == [1, 2, 3]
    first, second = image.partitions()
    assert (first.leader, first.replicas, first.isr) == (1, (1, 2), (1, 2))
    assert (second.leader, second.replicas) == (2, (2, 1))


def test_what_is_being_moved_counts_as_where_it_will_be() -> None:
    place = TopicPartition("orders", 0)
    image = an_image({place: Move((3, 2, 1), (3,), (1,))})
    (move,), stuck = plan_drain(image, NodeId(1))
    assert (move.name.partition, stuck) == (1, [])


def test_an_empty_node_is_given_something() -> None:
    moves = plan_spread(an_image())
    assert [3 in (move.replicas or ()) for move in moves] == [True]


def test_a_plan_says_what_it_costs() -> None:
    places = [TopicPartition("orders", number) for number in (0, 1)]
    plan = [
        Reassignment(places[0], (NodeId(3), NodeId(2))),
        Reassignment(places[1], (NodeId(1), NodeId(2))),
    ]
    changes = changes_of(an_image(), plan, {places[0]: 5_000_000, places[1]: 7})
    assert changes == [
        Change(places[0], (1, 2), (3, 2), 5_000_000),
        Change(places[1], (2, 1), (1, 2), 7),
    ]
    assert [change.coming for change in changes] == [(3,), ()]
    text = "2 partitions would change, 1 copy to make, about 5.0 MB."
    assert plan_text(changes, is_done=False) == text

"""Plans for many partitions at once: more or fewer copies, and preferred leaders spread evenly.

Beside `reassignments.plan_spread` and `plan_drain`. A plan is a list of targets; nothing happens
before somebody asks for them with `decide_reassign`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.controller.placement import Load, choose_replica, load_of
from tidelog.controller.reassignments import Reassignment
from tidelog.metadata.image import Image, NodeState, PartitionState
from tidelog.model.ids import NodeId, TopicPartition

Targets = dict[TopicPartition, tuple[NodeId, ...]]


def plan_factor(image: Image, states: Iterable[PartitionState], factor: int) -> list[Reassignment]:
    """So many copies of each. There must be as many usable nodes. What a partition has stays, as
    far as it may: first those go that are not in sync, then those of the fullest nodes, and the
    leader last."""
    usable = image.usable_nodes()
    assert factor <= len(usable), "more copies than nodes"
    of_all = load_of(image)
    of_topic: dict[str, Load] = {}
    for state in image.partitions():
        of_topic.setdefault(state.name.topic, Load()).add(state.target_replicas)
    moves = []
    for state in states:
        loads = [of_topic[state.name.topic], of_all]
        target = _with_factor(image, state, factor, usable=usable, loads=loads)
        if target != state.target_replicas:
            moves.append(Reassignment(state.name, target))
    return moves


def _with_factor(
    image: Image,
    state: PartitionState,
    factor: int,
    *,
    usable: Sequence[NodeState],
    loads: Sequence[Load],
) -> tuple[NodeId, ...]:
    turn = {node.node_id: index for index, node in enumerate(usable)}
    target = list(state.target_replicas)
    while len(target) > factor:
        leaving = max(
            target,
            key=lambda node_id: (
                node_id != state.leader,
                node_id not in state.isr,
                loads[-1].replicas.get(node_id, 0),
                node_id,
            ),
        )
        target.remove(leaving)
        _count(loads, leaving, -1)
    while len(target) < factor:
        beside = [image.nodes[node_id] for node_id in target if node_id in image.nodes]
        coming = choose_replica(usable, beside, loads, turn).node_id
        target.append(coming)
        _count(loads, coming, +1)
    return tuple(target)


def _count(loads: Iterable[Load], node_id: NodeId, change: int) -> None:
    for load in loads:
        load.replicas[node_id] = load.replicas.get(node_id, 0) + change


def plan_leaders(
    image: Image, states: Iterable[PartitionState], moves: Sequence[Reassignment]
) -> list[Reassignment]:
    """`moves`, and other orders of replicas, so that the first ones (who are to lead) are spread
    over the nodes. Another order costs no copying. What is being moved already is left alone."""
    planned = {move.name: move.replicas for move in moves if move.replicas is not None}
    targets: Targets = {
        state.name: planned.get(state.name, state.target_replicas) for state in image.partitions()
    }
    chosen = [state for state in states if not state.is_reassigning or state.name in planned]
    counts: dict[NodeId, int] = {}
    for replicas in targets.values():
        counts[replicas[0]] = counts.get(replicas[0], 0) + 1
    has_changed = True
    while has_changed:
        has_changed = False
        for state in chosen:
            first, *others = targets[state.name]
            usable = [node_id for node_id in others if image.is_usable(node_id)]
            if not usable:
                continue
            better = min(usable, key=lambda node_id: (counts.get(node_id, 0), node_id))
            if counts[first] - counts.get(better, 0) >= 2:  # less would only change places
                counts[first] -= 1
                counts[better] = counts.get(better, 0) + 1
                rest = [node_id for node_id in targets[state.name] if node_id != better]
                targets[state.name] = (better, *rest)
                has_changed = True
    return [
        Reassignment(state.name, targets[state.name])
        for state in chosen
        if targets[state.name] != state.target_replicas
    ]

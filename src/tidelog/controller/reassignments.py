"""Moving partitions between nodes: start, replace, cancel, list; and plans for whole nodes.

A reassignment keeps the old replicas until every new one is in sync: `replicas` is the target
followed by those to be removed. `PartitionChange` completes it, with whatever change makes the
target in sync. (Kafka completes when the *added* ones are; waiting for all never leaves a partition
with fewer copies in sync than it was to have.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelog.controller.decision import Decision
from tidelog.controller.elections import PartitionChange
from tidelog.controller.node_changes import usual_election
from tidelog.controller.placement import choose_replica, load_of
from tidelog.metadata.image import Image, NodeState, PartitionState
from tidelog.metadata.records import MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicPartition
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

CANCEL: None = None


@dataclass(frozen=True, slots=True)
class Reassignment:
    """`replicas` is the target, its preferred leader first; `CANCEL` takes back what is on."""

    name: TopicPartition
    replicas: tuple[NodeId, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentOutcome:
    name: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class _Refused(Exception):
    """The answer is no; never leaves this module."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def decide_reassign(
    image: Image,
    asked: Sequence[Reassignment],
    *,
    may_change_factor: bool = True,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[list[ReassignmentOutcome]]:
    """Each partition on its own; named twice, it is refused the second time."""
    records: list[MetadataRecord] = []
    outcomes: list[ReassignmentOutcome] = []
    done: set[TopicPartition] = set()
    for each in asked:
        try:
            if each.name in done:
                raise _Refused(ErrorCode.INVALID_REQUEST, "the request names the partition twice")
            done.add(each.name)
            change = _checked_change(image, each, may_change_factor, safeguards)
        except _Refused as refused:
            outcomes.append(ReassignmentOutcome(each.name, refused.error, refused.message))
            continue
        record = change.record()
        if record is not None:
            records.append(record)
        outcomes.append(ReassignmentOutcome(each.name))
    return Decision(records, outcomes)


def list_reassignments(
    image: Image, names: Sequence[TopicPartition] | None
) -> list[PartitionState]:
    """Partitions that are being moved: of those named, or of all."""
    wanted = None if names is None else frozenset(names)
    return [
        state
        for state in image.partitions()
        if state.is_reassigning and (wanted is None or state.name in wanted)
    ]


def plan_drain(image: Image, node_id: NodeId) -> tuple[list[Reassignment], list[TopicPartition]]:
    """Everything off a node: each of its partitions gets another node in its place. Gives also
    the partitions for which there is none."""
    others = [node for node in image.usable_nodes() if node.node_id != node_id]
    load = load_of(image)
    turn = {node.node_id: index for index, node in enumerate(others)}
    moves: list[Reassignment] = []
    stuck: list[TopicPartition] = []
    for state in image.partitions_on(node_id):
        target = state.target_replicas
        if node_id not in target:
            continue
        beside = [_node(image, each) for each in target if each != node_id]
        if all(node.node_id in target for node in others):
            stuck.append(state.name)
            continue
        substitute = choose_replica(others, beside, [load], turn).node_id
        load.add([substitute])
        replicas = tuple(substitute if each == node_id else each for each in target)
        moves.append(Reassignment(state.name, replicas))
    return moves, stuck


def plan_spread(image: Image) -> list[Reassignment]:
    """Even out the copies over all usable nodes, moving few: from a node with more to one with
    less, as long as that helps and keeps racks apart. What is being moved already is left alone."""
    counts = {node.node_id: 0 for node in image.usable_nodes()}
    for state in image.partitions():
        for node_id in state.target_replicas:
            if node_id in counts:
                counts[node_id] += 1
    moves: list[Reassignment] = []
    for state in image.partitions():
        if state.is_reassigning:
            continue
        target = state.replicas
        while (swap := _better_place(image, target, counts)) is not None:
            leaving, coming = swap
            counts[leaving] -= 1
            counts[coming] += 1
            target = tuple(coming if each == leaving else each for each in target)
        if target != state.replicas:
            moves.append(Reassignment(state.name, target))
    return moves


def _better_place(
    image: Image, target: Sequence[NodeId], counts: Mapping[NodeId, int]
) -> tuple[NodeId, NodeId] | None:
    """Who should give a copy to whom. The sum of squares falls with each such move, so there is an
    end to them."""
    givers = sorted((n for n in target if n in counts), key=lambda n: (-counts[n], n))
    takers = sorted((n for n in counts if n not in target), key=lambda n: (counts[n], n))
    for giver in givers:
        for taker in takers:
            if counts[giver] - counts[taker] <= 1:
                break
            if _keeps_racks_apart(image, target, giver, taker):
                return giver, taker
    return None


def _keeps_racks_apart(
    image: Image, target: Sequence[NodeId], leaving: NodeId, coming: NodeId
) -> bool:
    rack = image.nodes[coming].rack
    if rack is None or rack == image.nodes[leaving].rack:
        return True
    return all(_node(image, each).rack != rack for each in target if each != leaving)


def _node(image: Image, node_id: NodeId) -> NodeState:
    """A replica's node, or what is left to say of one that is no longer registered."""
    gone = NodeState(node_id, "", 0, None, image.last_broker_epoch)
    return image.nodes.get(node_id, gone)


def _checked_change(
    image: Image, asked: Reassignment, may_change_factor: bool, safeguards: frozenset[Safeguard]
) -> PartitionChange:
    topic = image.topics.get(asked.name.topic)
    if topic is None or not 0 <= asked.name.partition < len(topic.partitions):
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise _Refused(unknown, unknown.explanation)
    state = topic.partitions[asked.name.partition]
    change = PartitionChange(image, state, safeguards=safeguards)
    change.election = usual_election(image, state)
    if asked.replicas is CANCEL:
        _cancel(change, state)
    else:
        _check_target(image.nodes, state, asked.replicas, may_change_factor)
        _start(change, state, asked.replicas)
    return change


def _check_target(
    nodes: Mapping[NodeId, NodeState],
    state: PartitionState,
    target: Sequence[NodeId],
    may_change_factor: bool,
) -> None:
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not target or len(set(target)) != len(target):
        raise _Refused(invalid, "a partition needs one or more different nodes")
    unknown = [node for node in target if node not in nodes and node not in state.replicas]
    if unknown:
        raise _Refused(invalid, f"there is no node {unknown[0]}")
    factor = len(state.original_replicas)
    if not may_change_factor and len(target) != factor:
        raise _Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{len(target)} replicas instead of {factor}, which the request does not allow",
        )


def _start(change: PartitionChange, state: PartitionState, target: Sequence[NodeId]) -> None:
    """The target first, then who is to go. A node that an earlier target was adding, and that has
    nothing yet that anybody may need, goes at once."""
    original = state.original_replicas
    may_be_needed = (*original, *state.isr, *state.elr, *state.last_known_elr)
    going = [node for node in state.replicas if node not in target and node in may_be_needed]
    change.replicas = [*target, *going]
    change.adding = [node for node in target if node not in original]
    change.removing = going


def _cancel(change: PartitionChange, state: PartitionState) -> None:
    if not state.is_reassigning:
        none_on = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        raise _Refused(none_on, none_on.explanation)
    original = list(state.original_replicas)
    if not any(node in original for node in (*state.isr, *state.elr)):
        raise _Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "only new replicas are in sync: without them, committed records would be lost",
        )
    # A new replica that leads already is taken leave of like any other leader.
    going = [state.leader] if state.leader in state.isr and state.leader not in original else []
    change.replicas, change.adding, change.removing = [*original, *going], [], going
    change.isr = [node for node in state.isr if node in change.replicas]
    change.elr = [node for node in state.elr if node in original]

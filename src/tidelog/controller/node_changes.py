"""What becomes of partitions when a node comes, goes, or may not be trusted.

Each `plan_` gives the records for all partitions a node's change concerns, decided on the image in
which the node has changed already. Only the node's own partitions are looked at (`holdings` of the
image), so it costs as much as there is to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidelog.controller.elections import Election, Loss, PartitionChange
from tidelog.metadata.image import Image, PartitionState
from tidelog.metadata.records import MetadataRecord, NodeChangeRecord
from tidelog.model.ids import NO_LEADER, NodeId, PartitionKey
from tidelog.model.safeguards import Safeguard

Losses = Callable[[PartitionState], Loss]
"""What a node may have lost of each partition."""


def nothing_lost(state: PartitionState) -> Loss:
    return Loss.NOTHING


def all_lost(state: PartitionState) -> Loss:
    return Loss.ANYTHING


def plan_departure(
    image: Image, node_id: NodeId, *, losses: Losses, safeguards: frozenset[Safeguard]
) -> Iterator[MetadataRecord]:
    """The node leaves every ISR, and others lead what it led; where it may have lost data, it is
    not eligible either."""
    for state in image.partitions_on(node_id):
        loss = losses(state)
        is_doubted = loss is not Loss.NOTHING and node_id in state.elr
        if node_id in state.isr or is_doubted:
            change = PartitionChange(image, state, safeguards=safeguards)
            change.election = usual_election(image, state)
            change.remove(node_id, loss)
            yield from _made(change)


def plan_doubts(
    image: Image,
    node_id: NodeId,
    doubtful: Iterable[PartitionKey],
    *,
    safeguards: frozenset[Safeguard],
) -> list[MetadataRecord]:
    """The node found at its start that it may lack records of these partitions: it counts neither
    as in sync nor as eligible, unless all others that had everything are gone as well."""
    records: list[MetadataRecord] = []
    for key in doubtful:
        state = image.partition(key)
        relied_on = () if state is None else (*state.isr, *state.elr)
        if state is None or node_id not in relied_on or all(each == node_id for each in relied_on):
            continue
        change = PartitionChange(image, state, safeguards=safeguards)
        change.election = usual_election(image, state)
        change.remove(node_id, Loss.UNFLUSHED)
        records += _made(change)
    return records


def plan_arrival(
    image: Image, node_id: NodeId, *, safeguards: frozenset[Safeguard]
) -> Iterator[MetadataRecord]:
    """The node may lead again: what nobody leads and it may."""
    for state in image.partitions_on(node_id):
        if state.leader == NO_LEADER:
            change = PartitionChange(image, state, safeguards=safeguards)
            change.election = usual_election(image, state)
            yield from _made(change)


def plan_elections(
    image: Image, states: Iterable[PartitionState], *, safeguards: frozenset[Safeguard]
) -> Iterator[MetadataRecord]:
    """Settle partitions anew, because settings they depend on have changed."""
    for state in states:
        change = PartitionChange(image, state, safeguards=safeguards)
        change.election = usual_election(image, state)
        yield from _made(change)


def plan_fencing(
    image: Image, node_id: NodeId, *, safeguards: frozenset[Safeguard]
) -> list[MetadataRecord]:
    """The node is not heard of any more, or asked for it."""
    node = image.nodes[node_id]
    fenced = NodeChangeRecord(node_id=node_id, epoch=node.epoch, is_fenced=1)
    after, _ = image.replay([fenced])
    return [
        fenced,
        *plan_departure(after, node_id, losses=nothing_lost, safeguards=safeguards),
    ]


def plan_unfencing(
    image: Image, node_id: NodeId, *, safeguards: frozenset[Safeguard]
) -> list[MetadataRecord]:
    """The node is heard of and knows the metadata."""
    node = image.nodes[node_id]
    unfenced = NodeChangeRecord(node_id=node_id, epoch=node.epoch, is_fenced=0)
    after, _ = image.replay([unfenced])
    return [unfenced, *plan_arrival(after, node_id, safeguards=safeguards)]


def plan_shutdown(
    image: Image, node_id: NodeId, *, safeguards: frozenset[Safeguard]
) -> list[MetadataRecord]:
    """The node wants to stop: others lead first, while it still answers."""
    node = image.nodes[node_id]
    leaving = NodeChangeRecord(node_id=node_id, epoch=node.epoch, is_shutting_down=1)
    after, _ = image.replay([leaving])
    return [
        leaving,
        *plan_departure(after, node_id, losses=nothing_lost, safeguards=safeguards),
    ]


def usual_election(image: Image, state: PartitionState) -> Election:
    """How far elections go for this partition's topic, where nobody asks for more."""
    topic = image.topics[state.name.topic]
    return Election.UNCLEAN if image.allows_unclean_election(topic) else Election.CLEAN


def _made(change: PartitionChange) -> Iterator[MetadataRecord]:
    record = change.record()
    if record is not None:
        yield record

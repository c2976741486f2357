"""What is to be moved where: the cluster as it is told becomes an image, and the controller's own
planners work on that. Nothing here asks a node or changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tidelog.cli.output import add_rows, people, plural, size_text, table
from tidelog.cli.partition_choice import told_once
from tidelog.client.admin import Topic
from tidelog.client.cluster_admin import ClusterNode, Move
from tidelog.controller.reassignments import Reassignment
from tidelog.metadata.image import Image
from tidelog.metadata.records import MetadataRecord, NodeRecord, PartitionRecord, TopicRecord
from tidelog.model.ids import NO_LEADER, TopicPartition

_SHOWN = 40
"""Rows of a plan that a person reads; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Change:
    """One partition's replicas, as they are and as they are to be; the first is to lead."""

    place: TopicPartition
    old: tuple[int, ...]
    new: tuple[int, ...]
    size_bytes: int | None = None

    @property
    def coming(self) -> tuple[int, ...]:
        return tuple(node_id for node_id in self.new if node_id not in self.old)

    @property
    def copied_bytes(self) -> int:
        return len(self.coming) * (self.size_bytes or 0)


def image_of(
    nodes: Iterable[ClusterNode], topics: Iterable[Topic], moves: Mapping[TopicPartition, Move]
) -> Image:
    """The cluster for a planner: nodes, racks, replicas and what is being moved."""
    records: list[MetadataRecord] = [
        NodeRecord(
            node_id=node.node_id,
            host=node.host,
            port=node.port,
            rack=node.rack,
            epoch=1,
            is_fenced=node.is_fenced,
        )
        for node in nodes
    ]
    for number, topic in enumerate(topics, 1):
        topic_id = UUID(int=number)
        records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        for place, partition in zip(topic.topic_partitions, topic.partitions, strict=True):
            move = moves.get(place, Move(partition.replicas, (), ()))
            records.append(
                PartitionRecord(
                    topic_id=topic_id,
                    partition=partition.number,
                    replicas=list(move.replicas),
                    isr=list(partition.in_sync),
                    leader=partition.leader,
                    leader_epoch=0,
                    adding_replicas=list(move.adding),
                    removing_replicas=list(move.removing),
                )
            )
    image, _ = Image().replay(records)
    return image


def leaderless_of(image: Image) -> list[TopicPartition]:
    """Partitions that nobody can copy at the moment."""
    return [state.name for state in image.partitions() if state.leader == NO_LEADER]


def changes_of(
    image: Image, plan: Sequence[Reassignment], sizes: Mapping[TopicPartition, int]
) -> list[Change]:
    """The plan beside what there is."""
    targets = {
        state.name: tuple(int(node_id) for node_id in state.target_replicas)
        for state in image.partitions()
    }
    return [
        Change(each.name, targets[each.name], tuple(each.replicas or ()), sizes.get(each.name))
        for each in plan
    ]


def as_rows(changes: Iterable[Change]) -> list[dict[str, Any]]:
    return [
        {
            **change.place._asdict(),
            "replicas": list(change.old),
            "new_replicas": list(change.new),
            "bytes_to_copy": change.copied_bytes,
        }
        for change in changes
    ]


def show_plan(changes: Sequence[Change]) -> None:
    """Each partition's replicas, as they are and as they would be."""
    if not changes:
        return
    shown = changes[:_SHOWN]
    rows = (
        (*cells, listed(change.old), "→", listed(change.new), _size(change))
        for cells, change in zip(told_once(each.place for each in shown), shown, strict=True)
    )
    made = table("~Topic", "#Partition", "~Replicas", "", "~New", "#To copy")
    people().print(add_rows(made, rows))
    if len(changes) > len(shown):
        people().print(f"… and {plural(len(changes) - len(shown), 'partition')} more")
    people().print()


def plan_text(changes: Sequence[Change], *, is_done: bool) -> str:
    """The plan in a sentence."""
    copies = sum(len(change.coming) for change in changes)
    verb = "changed" if is_done else "would change"
    parts = [f"{plural(len(changes), 'partition')} {verb}"]
    if copies:
        size = size_text(sum(change.copied_bytes for change in changes))
        noun = "copy" if copies == 1 else "copies"
        verb = "made" if is_done else "to make"
        parts.append(f"{copies:,} {noun} {verb}, about {size}")
    return f"{', '.join(parts)}."


def listed(node_ids: Iterable[int]) -> str:
    return ",".join(map(str, node_ids))


def _size(change: Change) -> str:
    if not change.coming:
        return "-"
    return size_text(change.copied_bytes) if change.size_bytes is not None else "?"

"""Unclean elections that a topic's settings allow: which partitions wait for one, and deciding it.

A partition waits when nobody may lead it with all committed records, its topic allows an unclean
election, and a replica is usable. Whether asked for by people or allowed by the topic, the rule is
the same: the usable replica with the most of the log leads (`log_ends.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.controller.decision import Decision
from tidelog.controller.elect_leaders import find_partition
from tidelog.controller.elections import Election, PartitionChange
from tidelog.controller.log_ends import LogEndsByPartition
from tidelog.controller.node_changes import usual_election
from tidelog.metadata.image import Image, PartitionState
from tidelog.metadata.records import MetadataRecord
from tidelog.model.ids import NO_LEADER, PartitionKey, TopicPartition
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard


def leaderless(image: Image, names: Sequence[TopicPartition] | None) -> list[PartitionState]:
    """The partitions that nobody leads: of those named, or of all."""
    if names is None:
        return [state for state in image.partitions() if state.leader == NO_LEADER]
    found = (find_partition(image, name) for name in dict.fromkeys(names))
    return [state for state in found if state is not None and state.leader == NO_LEADER]


def waiting(image: Image, keys: Iterable[PartitionKey]) -> list[PartitionState]:
    """Of the partitions that nobody leads, those that an unclean election could help."""
    states = (image.partition(key) for key in keys)
    return [
        state
        for state in states
        if state is not None
        and state.leader == NO_LEADER
        and usual_election(image, state) is Election.UNCLEAN
        and any(image.is_usable(node_id) for node_id in state.replicas)
    ]


def decide_waiting(
    image: Image,
    keys: Iterable[PartitionKey],
    log_ends: LogEndsByPartition,
    *,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[None]:
    """Elect leaders of what waits. A partition of which nothing was told goes on waiting."""
    records: list[MetadataRecord] = []
    for state in waiting(image, keys):
        change = PartitionChange(image, state, safeguards=safeguards)
        change.election = Election.UNCLEAN
        change.log_ends = log_ends.get(state.key)
        record = change.record()
        if record is not None:
            records.append(record)
    return Decision(records, None)

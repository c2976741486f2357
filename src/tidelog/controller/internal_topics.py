"""Internal topics get as many replicas as they are to have, as soon as there are nodes for them.

`__consumer_offsets` is created when the first group needs it, with a replica on each node that is
registered then: on a node that is alone, one. The active controller adds the missing replicas when
nodes have come, a few partitions at a time, with ordinary reassignments.

Their number is `offsets.topic.replication.factor`, unless people have decided otherwise: their
reassignment to another number is noted as the topic's own factor, so that the controller does not
undo it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelog.controller.reassignments import CANCEL, Reassignment, ReassignmentOutcome
from tidelog.controller.spreading import plan_factor
from tidelog.metadata.image import Image, TopicState
from tidelog.metadata.records import ConfigRecord, MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.model.topic_settings import INTERNAL_FACTOR

MAX_GROWING = 5
"""Partitions of one topic that are copied at the same time."""


def plan_growth(image: Image, factors: Mapping[str, int]) -> list[Reassignment]:
    """What may be begun now, for the internal topics with their configured `factors`."""
    usable = len(image.usable_nodes())
    moves: list[Reassignment] = []
    for name, configured in factors.items():
        topic = image.topics.get(name)
        if topic is None:
            continue
        wanted = min(_wanted(topic, configured), usable)
        growing = sum(state.is_reassigning for state in topic.partitions)
        small = [
            state
            for state in topic.partitions
            if len(state.replicas) < wanted
            and not state.is_reassigning
            and state.leader != NO_LEADER
        ]
        chosen = small[: max(0, MAX_GROWING - growing)]
        if chosen:
            moves += plan_factor(image, chosen, wanted)
    return moves


def note_factors(
    image: Image,
    asked: Iterable[Reassignment],
    outcomes: Sequence[ReassignmentOutcome],
    factors: Mapping[str, int],
) -> list[MetadataRecord]:
    """What people have asked for becomes the factor of an internal topic, where it changes the
    number of replicas; as configured again, and nothing is noted."""
    accepted = {each.name for each in outcomes if each.error is ErrorCode.NONE}
    noted: dict[str, int] = {}
    for each in asked:
        topic = image.topics.get(each.name.topic)
        if topic is None or topic.name not in factors or each.name not in accepted:
            continue
        state = topic.partitions[each.name.partition]
        target = state.original_replicas if each.replicas is CANCEL else each.replicas
        if len(target) != len(state.target_replicas):
            noted[topic.name] = len(target)
    return [
        ConfigRecord(
            topic_id=image.topics[name].topic_id,
            name=INTERNAL_FACTOR,
            value=None if count == factors[name] else str(count),
        )
        for name, count in noted.items()
        if count != _wanted(image.topics[name], factors[name])
    ]


def _wanted(topic: TopicState, configured: int) -> int:
    own = int(topic.configs.get(INTERNAL_FACTOR, -1))
    return configured if own < 1 else own

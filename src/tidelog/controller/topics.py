"""Creating and deleting topics: the rules, and the records they lead to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from tidelog.controller.decision import Decision
from tidelog.controller.placement import Load, choose_replicas, load_of
from tidelog.metadata.image import Image, TopicState
from tidelog.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TOPIC_ID, NodeId, TopicId
from tidelog.model.limits import MAX_TOPIC_NAME
from tidelog.model.settings import InvalidSetting, parse_settings, setting_named

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
USE_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as asked for. `assignments` (replicas by partition) replaces the two numbers."""

    name: str
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one topic. `message` is a sentence for the user, where there was an error."""

    name: str | None
    topic_id: TopicId = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What the node's settings say about new topics. `internal_factors` are the replication factors
    of internal topics: while fewer nodes are registered, such a topic has a replica on each."""

    default_partitions: int
    max_partitions: int
    default_replication_factor: int = 1
    internal_factors: Mapping[str, int] = field(default_factory=dict)


class _Refused(Exception):
    """The answer is no; never leaves this module."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def decide_create_topics(
    image: Image,
    specs: Sequence[TopicSpec],
    *,
    rules: TopicRules,
    random: Random,
    planned: int = 0,
) -> Decision[list[TopicOutcome]]:
    """Each topic is created or refused on its own. `planned` partitions, of which there are no
    records yet, take their part of what `max.partitions` allows."""
    records: list[MetadataRecord] = []
    outcomes: list[TopicOutcome] = []
    times_named = Counter(spec.name for spec in specs)
    room = rules.max_partitions - image.partition_count - planned
    load = load_of(image) if len(image.nodes) > 1 else Load()
    for spec in specs:
        try:
            if times_named[spec.name] > 1:
                raise _Refused(ErrorCode.INVALID_REQUEST, "the request names the topic twice")
            replicas = _checked_placement(
                image, spec, rules=rules, room=room, random=random, load=load
            )
        except _Refused as refused:
            outcomes.append(TopicOutcome(spec.name, error=refused.error, message=refused.message))
            continue
        topic_id = TopicId(UUID(int=random.getrandbits(128), version=4))
        records += _topic_records(image, spec, topic_id, replicas)
        room -= len(replicas)
        outcomes.append(
            TopicOutcome(
                spec.name,
                topic_id,
                partitions=len(replicas),
                replication_factor=len(replicas[0]),
            )
        )
    return Decision(records, outcomes)


def decide_create_partitions(
    image: Image,
    name: str,
    *,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    rules: TopicRules,
    load: Load,
    planned: int = 0,
) -> Decision[TopicOutcome]:
    """More partitions for a topic: `count` in all. Keys hash to other partitions from then on.
    They are added to `load`, what every node has been given; `planned` is as for new topics."""
    topic = image.topics.get(name)
    try:
        if topic is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise _Refused(unknown, unknown.explanation)
        have = len(topic.partitions)
        if count <= have:
            raise _Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} has {have} partitions: {count} is not more",
            )
        added = count - have
        if added > rules.max_partitions - image.partition_count - planned:
            raise _Refused(ErrorCode.INVALID_PARTITIONS, "more than max.partitions allows")
        factor = len(topic.partitions[0].target_replicas)
        if assignments is None:
            replicas = _more_replicas(image, topic, partitions=added, factor=factor, load=load)
        else:
            replicas = _checked_assignment(image, assignments, partitions=added, factor=factor)
            for nodes in replicas:
                load.add(nodes)
    except _Refused as refused:
        return Decision([], TopicOutcome(name, error=refused.error, message=refused.message))
    records = _partition_records(image, topic.topic_id, replicas, first=have)
    outcome = TopicOutcome(name, topic.topic_id, partitions=count, replication_factor=factor)
    return Decision(records, outcome)


def decide_delete_topics(
    image: Image, targets: Sequence[tuple[str | None, TopicId]]
) -> Decision[list[TopicOutcome]]:
    """Topics by name, or by id where the name is None; a target named twice is deleted once."""
    records: list[MetadataRecord] = []
    outcomes: list[TopicOutcome] = []
    gone: set[TopicId] = set()
    for name, topic_id in targets:
        topic = image.topics.get(name) if name is not None else image.topic_by_id(topic_id)
        if topic is None or topic.topic_id in gone:
            error = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if name is not None
                else ErrorCode.UNKNOWN_TOPIC_ID
            )
            outcomes.append(TopicOutcome(name, topic_id, error, error.explanation))
            continue
        if topic.is_internal:
            refused = ErrorCode.INVALID_TOPIC_EXCEPTION
            outcomes.append(TopicOutcome(topic.name, topic_id, refused, "groups are kept there"))
            continue
        gone.add(topic.topic_id)
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        outcomes.append(TopicOutcome(topic.name, topic.topic_id))
    return Decision(records, outcomes)


def _more_replicas(
    image: Image, topic: TopicState, *, partitions: int, factor: int, load: Load
) -> list[tuple[NodeId, ...]]:
    """For new partitions, as if the topic had been created with them."""
    nodes = image.usable_nodes()
    _check_factor(image, factor)
    of_topic = Load()
    for state in topic.partitions:
        of_topic.add(state.target_replicas)
    return choose_replicas(
        nodes,
        partitions=partitions,
        replication_factor=factor,
        first=len(topic.partitions),
        load=load,
        topic_load=of_topic,
        unusable=image.unusable_nodes(),
    )


def _topic_records(
    image: Image, spec: TopicSpec, topic_id: TopicId, replicas: Sequence[Sequence[NodeId]]
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [TopicRecord(name=spec.name, topic_id=topic_id)]
    records += [
        ConfigRecord(
            topic_id=topic_id, name=name, value=setting_named(name, "topic").normalized(value)
        )
        for name, value in spec.configs.items()
        if value is not None
    ]
    return records + _partition_records(image, topic_id, replicas, first=0)


def _partition_records(
    image: Image, topic_id: TopicId, replicas: Sequence[Sequence[NodeId]], *, first: int
) -> list[MetadataRecord]:
    """Every usable replica is in sync with a log that is empty."""
    records: list[MetadataRecord] = []
    for index, nodes in enumerate(replicas, first):
        isr = [node_id for node_id in nodes if image.is_usable(node_id)]
        records.append(
            PartitionRecord(
                topic_id=topic_id,
                partition=index,
                replicas=list(nodes),
                isr=list(isr),
                leader=isr[0],
                leader_epoch=0,
            )
        )
    return records


def _checked_placement(
    image: Image, spec: TopicSpec, *, rules: TopicRules, room: int, random: Random, load: Load
) -> list[tuple[NodeId, ...]]:
    _check_name(spec.name)
    if spec.name in image.topics:
        raise _Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {spec.name!r} exists already")
    _check_configs(spec)
    if spec.assignments:
        return _assigned(image, spec)
    partitions = rules.default_partitions if spec.partitions == USE_DEFAULT else spec.partitions
    if partitions <= 0:
        raise _Refused(ErrorCode.INVALID_PARTITIONS, "a topic has at least one partition")
    if partitions > room:
        raise _Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{partitions} partitions are more than the {room} that max.partitions leaves room for",
        )
    factor = _factor(spec, rules, len(image.nodes))
    _check_factor(image, factor)
    nodes = image.usable_nodes()
    return choose_replicas(
        nodes,
        partitions=partitions,
        replication_factor=factor,
        first=random.randrange(len(nodes)),
        load=load,
        unusable=image.unusable_nodes(),
    )


def _check_factor(image: Image, factor: int) -> None:
    """As many nodes must be registered; one of them must be usable, to lead. The others join the
    ISR when they are back."""
    registered = len(image.nodes)
    if not 1 <= factor <= registered:
        raise _Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} with {registered} node(s): choose 1 to {registered}",
        )
    if not image.usable_nodes():
        raise _Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"none of the {registered} registered node(s) is up: start one, to lead the partitions",
        )


def _factor(spec: TopicSpec, rules: TopicRules, nodes: int) -> int:
    if spec.replication_factor != USE_DEFAULT:
        return spec.replication_factor
    wish = rules.internal_factors.get(spec.name)
    return rules.default_replication_factor if wish is None else min(wish, nodes)


def _assigned(image: Image, spec: TopicSpec) -> list[tuple[NodeId, ...]]:
    if spec.partitions != USE_DEFAULT or spec.replication_factor != USE_DEFAULT:
        raise _Refused(
            ErrorCode.INVALID_REQUEST, "give either an assignment or numbers of partitions"
        )
    if sorted(spec.assignments) != list(range(len(spec.assignments))):
        raise _Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 without a gap"
        )
    ordered = [spec.assignments[index] for index in range(len(spec.assignments))]
    factor = len(ordered[0])
    return _checked_assignment(image, ordered, partitions=len(ordered), factor=factor)


def _checked_assignment(
    image: Image, assignments: Sequence[Sequence[int]], *, partitions: int, factor: int
) -> list[tuple[NodeId, ...]]:
    placed = [tuple(NodeId(node) for node in nodes) for nodes in assignments]
    is_sound = len(placed) == partitions and all(
        nodes
        and len(nodes) == factor
        and len(set(nodes)) == len(nodes)
        and all(node in image.nodes for node in nodes)
        and any(image.is_usable(node) for node in nodes)
        for nodes in placed
    )
    if not is_sound:
        raise _Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "each new partition needs the same number of different nodes, one of them alive",
        )
    return placed


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or len(name) > MAX_TOPIC_NAME or not _LEGAL_NAME.fullmatch(name):
        raise _Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"a topic name has 1 to {MAX_TOPIC_NAME} of the characters a-z A-Z 0-9 . _ -",
        )


def _check_configs(spec: TopicSpec) -> None:
    try:
        for name, value in spec.configs.items():
            if value is None:
                raise InvalidSetting(f"{name} has no value")
            parse_settings({name: value}, "topic")
    except InvalidSetting as wrong:
        raise _Refused(ErrorCode.INVALID_CONFIG, str(wrong)) from None

"""Which znodes a decision changes, beside the log: those that people and their tools look at.

They are written in the same operation as the decision. One operation has room for some hundred of
them; of a larger decision, or where somebody else has laid hands on a znode, the rest is brought up
to date right after it, topic by topic. Nothing of ours is ever read back from them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.metadata.delta import Delta
from tidelog.metadata.image import Image, TopicState
from tidelog.zookeeper.paths import (
    config_json,
    config_path,
    partition_path,
    state_json,
    state_path,
    topic_json,
    topic_path,
)
from tidelog.zookeeper.requests import Change, Create, Delete, Put

TopicChanges = dict[str, list[Change]]
"""By topic."""


def plan_changes(before: Image, after: Image, delta: Delta, *, epoch: int) -> TopicChanges:
    """For what lies between two images."""
    changes: TopicChanges = {}
    for topic_id, name in delta.removed.items():
        known = before.topic_by_id(topic_id)
        if known is not None:
            changes.setdefault(name, []).extend(_removal(known))
    created = [after.topic_by_id(topic_id) for topic_id in delta.created]
    for topic in created:
        if topic is not None:
            changes.setdefault(topic.name, []).extend(_creation(topic, epoch))
    new = {topic.name for topic in created if topic is not None}
    for key, partition in delta.partitions.items():
        topic = after.topic_by_id(key.topic_id)
        if topic is None or topic.name in new:
            continue
        rows = changes.setdefault(topic.name, [])
        if partition.has_new_replicas:
            rows.append(Put(topic_path(topic.name), topic_json(topic)))
        data = state_json(topic.partitions[key.partition], epoch)
        if partition.is_new:
            rows += _new_partition(topic.name, key.partition, data)
        else:
            rows.append(Put(state_path(topic.name, key.partition), data))
    for topic_id in delta.configured:
        topic = after.topic_by_id(topic_id)
        if topic is not None and topic.name not in new:
            row = Put(config_path(topic.name), config_json(topic.configs))
            changes.setdefault(topic.name, []).append(row)
    return changes


def plan_repair(
    topic: TopicState | None,
    name: str,
    *,
    found: list[int] | None,
    has_config: bool,
    epoch: int,
) -> list[Change]:
    """What makes a topic's znodes right; `found` are the partitions that have one, None if the
    topic itself has none."""
    changes: list[Change] = []
    there = found or []
    wanted = [] if topic is None else list(range(len(topic.partitions)))
    for number in there:
        if number not in wanted:
            changes += [Delete(state_path(name, number)), Delete(partition_path(name, number))]
    if topic is None:
        if found is not None:
            changes += [Delete(f"{topic_path(name)}/partitions"), Delete(topic_path(name))]
        return [*changes, Delete(config_path(name))] if has_config else changes
    if found is None:
        changes += [Create(topic_path(name)), Create(f"{topic_path(name)}/partitions")]
    changes.append(Put(topic_path(name), topic_json(topic)))
    for number, state in enumerate(topic.partitions):
        data = state_json(state, epoch)
        if number in there:
            changes.append(Put(state_path(name, number), data))
        else:
            changes += _new_partition(name, number, data)
    config = config_json(topic.configs)
    path = config_path(name)
    changes.append(Put(path, config) if has_config else Create(path, config))
    return changes


def _creation(topic: TopicState, epoch: int) -> Iterator[Change]:
    yield Create(topic_path(topic.name), topic_json(topic))
    yield Create(f"{topic_path(topic.name)}/partitions")
    for number, state in enumerate(topic.partitions):
        yield from _new_partition(topic.name, number, state_json(state, epoch))
    yield Create(config_path(topic.name), config_json(topic.configs))


def _new_partition(topic: str, number: int, data: bytes) -> list[Change]:
    return [Create(partition_path(topic, number)), Create(state_path(topic, number), data)]


def _removal(topic: TopicState) -> Iterator[Change]:
    for number in range(len(topic.partitions)):
        yield Delete(state_path(topic.name, number))
        yield Delete(partition_path(topic.name, number))
    yield Delete(f"{topic_path(topic.name)}/partitions")
    yield Delete(topic_path(topic.name))
    yield Delete(config_path(topic.name))

"""Server-side assignors: who is to have which partition. Pure functions.

- `uniform` spreads all partitions as evenly as the subscriptions allow and moves as few as it can.
- `range` gives each member a stretch of neighbouring partitions of every topic, so that members
  who subscribe alike get the same numbers of topics with the same number of partitions (joins).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from tidelog.groups.consumer_group import Partitions
from tidelog.model.ids import PartitionKey, TopicId


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as assignors see it. `previous` is its part of the last target."""

    topic_ids: frozenset[UUID]
    previous: Partitions
    instance_id: str | None = None


Subscribers = Mapping[str, Subscriber]
Counts = Mapping[UUID, int]
"""Partitions by topic."""
Assignor = Callable[[Subscribers, Counts], dict[str, Partitions]]


def assign_uniform(subscribers: Subscribers, counts: Counts) -> dict[str, Partitions]:
    if not subscribers:
        return {}
    first = next(iter(subscribers.values())).topic_ids
    if all(subscriber.topic_ids == first for subscriber in subscribers.values()):
        return _assign_alike(subscribers, _all_partitions(first, counts))
    return _assign_unlike(subscribers, counts)


def _all_partitions(topic_ids: frozenset[UUID], counts: Counts) -> list[PartitionKey]:
    return [
        PartitionKey(TopicId(topic_id), partition)
        for topic_id in sorted(topic_ids)
        for partition in range(counts.get(topic_id, 0))
    ]


def _assign_alike(
    subscribers: Subscribers, partitions: list[PartitionKey]
) -> dict[str, Partitions]:
    """All want the same: everybody gets the same number, or one more. Who has more keeps more."""
    wanted = frozenset(partitions)
    kept = {
        member_id: sorted(subscriber.previous & wanted)
        for member_id, subscriber in subscribers.items()
    }
    quota, extras = divmod(len(partitions), len(subscribers))
    order = sorted(kept, key=lambda member_id: (-len(kept[member_id]), member_id))
    quotas = {member_id: quota + (place < extras) for place, member_id in enumerate(order)}
    shares = {member_id: kept[member_id][: quotas[member_id]] for member_id in sorted(kept)}
    taken = {partition for share in shares.values() for partition in share}
    free = [partition for partition in partitions if partition not in taken]
    for member_id, share in shares.items():
        missing = quotas[member_id] - len(share)
        share += free[:missing]
        del free[:missing]
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _assign_unlike(subscribers: Subscribers, counts: Counts) -> dict[str, Partitions]:
    """Subscriptions differ: keep what was, deal out the rest to who has least, then level."""
    readers = _readers(subscribers)
    shares: dict[str, set[PartitionKey]] = {member_id: set() for member_id in sorted(subscribers)}
    taken: set[PartitionKey] = set()
    for member_id in shares:
        subscriber = subscribers[member_id]
        for partition in sorted(subscriber.previous - taken):
            exists = partition.partition < counts.get(partition.topic_id, 0)
            if exists and partition.topic_id in subscriber.topic_ids:
                shares[member_id].add(partition)
                taken.add(partition)
    topics = sorted(readers, key=lambda topic_id: (len(readers[topic_id]), topic_id))
    for topic_id in topics:
        for number in range(counts.get(topic_id, 0)):
            partition = PartitionKey(TopicId(topic_id), number)
            if partition not in taken:
                shares[_least_laden(readers[topic_id], shares)].add(partition)
    _level(shares, readers)
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _readers(subscribers: Subscribers) -> dict[UUID, list[str]]:
    readers: dict[UUID, list[str]] = {}
    for member_id in sorted(subscribers):
        for topic_id in sorted(subscribers[member_id].topic_ids):
            readers.setdefault(topic_id, []).append(member_id)
    return readers


def _least_laden(members: list[str], shares: Mapping[str, set[PartitionKey]]) -> str:
    return min(members, key=lambda member_id: (len(shares[member_id]), member_id))


def _level(shares: dict[str, set[PartitionKey]], readers: Mapping[UUID, list[str]]) -> None:
    """Move partitions to who has at least two fewer, until there is no such. Every move makes the
    sum of squares smaller, so it ends."""
    is_moving = True
    while is_moving:
        is_moving = False
        for member_id in sorted(shares, key=lambda one: (-len(shares[one]), one)):
            for partition in sorted(shares[member_id]):
                other = _least_laden(readers[partition.topic_id], shares)
                if len(shares[other]) + 1 < len(shares[member_id]):
                    shares[member_id].remove(partition)
                    shares[other].add(partition)
                    is_moving = True


def assign_range(subscribers: Subscribers, counts: Counts) -> dict[str, Partitions]:
    """Static members come first and in the order of their instance ids: a restart, which changes
    the member id, does not shift anybody's stretch."""
    order = sorted(
        subscribers,
        key=lambda member_id: (
            subscribers[member_id].instance_id is None,
            subscribers[member_id].instance_id or "",
            member_id,
        ),
    )
    shares: dict[str, set[PartitionKey]] = {member_id: set() for member_id in order}
    for topic_id, members in _readers(subscribers).items():
        readers = [member_id for member_id in order if member_id in set(members)]
        quota, extras = divmod(counts.get(topic_id, 0), len(readers))
        start = 0
        for place, member_id in enumerate(readers):
            end = start + quota + (place < extras)
            shares[member_id].update(
                PartitionKey(TopicId(topic_id), number) for number in range(start, end)
            )
            start = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}

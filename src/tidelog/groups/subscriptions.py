"""What the members of a newer group are subscribed to: names, regular expressions, and a
fingerprint of the topics behind them, by which a change is noticed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from uuid import UUID

from tidelog.groups.consumer_group import ConsumerGroup, ConsumerMember
from tidelog.groups.topics import Topics


def resolve_regex(regex: str, topics: Topics) -> tuple[str, ...]:
    """The topics that match as a whole; Kafka's own are for those who name them."""
    matches = re.compile(regex).fullmatch
    return tuple(
        name for name in sorted(topics.names()) if not name.startswith("__") and matches(name)
    )


def topics_of(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """By name and by regular expression together, whether they exist or not."""
    matched = group.regexes.get(member.topic_regex, ()) if member.topic_regex else ()
    return frozenset((*member.topic_names, *matched))


def all_topics(group: ConsumerGroup) -> frozenset[str]:
    return frozenset(name for member in group.members.values() for name in topics_of(group, member))


def topic_ids(names: Iterable[str], topics: Topics) -> frozenset[UUID]:
    """Of those that exist."""
    found = (topics.topic_id(name) for name in names)
    return frozenset(topic_id for topic_id in found if topic_id is not None)


def fingerprint(group: ConsumerGroup, topics: Topics) -> int:
    """A signed 64-bit number that changes when a subscribed topic appears, goes, grows, or is
    created again."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(all_topics(group)):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            digest.update(f"{name}\0{topic_id}\0{topics.partitions(name)}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)

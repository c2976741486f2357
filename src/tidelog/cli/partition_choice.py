"""`--topic orders` or `--topic orders:0,2-4`: a topic, or some of its partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.client.admin import Topic
from tidelog.model.ids import TopicPartition

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST = 1_000_000
"""Partitions a range may name; more than any topic has."""


class PartitionChoice(NamedTuple):
    """`partitions` is None for all of them."""

    topic: str
    partitions: tuple[int, ...] | None

    def of(self, topic: Topic) -> list[TopicPartition]:
        """As the cluster has them; a `ClientError` if the topic has no such partition."""
        if self.partitions is None:
            return topic.topic_partitions
        return [place for number in self.partitions for place in topic.chosen(number)]


def parse_choice(text: str) -> PartitionChoice:
    """What the user means, or `ValueError` with a sentence."""
    topic, colon, numbers = text.partition(":")
    if topic and not colon:
        return PartitionChoice(topic, None)
    found: dict[int, None] = {}
    for part in numbers.split(","):
        match = _RANGE.fullmatch(part.strip())
        first = int(match[1]) if match else 0
        last = int(match[2] or first) if match else -1
        if not topic or not first <= last < _MOST:
            raise ValueError(f"must be TOPIC or TOPIC:PARTITIONS, as orders:0,2-4: not {text!r}")
        found |= dict.fromkeys(range(first, last + 1))
    return PartitionChoice(topic, tuple(found))


def numbers_text(numbers: Iterable[int]) -> str:
    """Partitions for people, and as `parse_choice` reads them: 0-2,5."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def told_once(places: Iterable[TopicPartition]) -> list[tuple[str, int]]:
    """For a table: a topic's name stands at the first of its partitions only."""
    cells = []
    before = ""
    for topic, partition in places:
        cells.append(("" if topic == before else topic, partition))
        before = topic
    return cells


def places_text(places: Iterable[TopicPartition]) -> str:
    """The partitions of several topics: `orders:0-2 returns:0`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic, []).append(partition)
    return " ".join(f"{topic}:{numbers_text(numbers)}" for topic, numbers in by_topic.items())

"""How far a stream has come, as the JSON that Spark keeps in its checkpoint.

::

    {"orders": {"id": "8fbe…", "next": {"0": 1200, "1": 987}, "from": {"1": 0}}}

`next` is the next offset to be read. `id` is the topic's: a topic that was deleted and created
again is another topic, whatever its name. `from` is where partitions that are new in this offset
begin, so that a batch which is run again after a crash reads exactly the same records.

PURE. Spark compares offsets as text, so keys stand in canonical order: topics by name, partitions
by number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import PipelineError
from tidelog.spark.planner import OffsetRange

_ID, _NEXT, _FROM = "id", "next", "from"


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The next offset of each partition, where the new ones begin, and the topics' ids."""

    next: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    new: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """What `to_json` made; anything else is no offset of ours."""
        try:
            return cls(
                next=_places(document, _NEXT),
                topic_ids={topic: str(row.get(_ID, "")) for topic, row in document.items()},
                new=_places(document, _FROM),
            )
        except (AttributeError, TypeError, ValueError):
            raise PipelineError(
                "the checkpoint holds an offset that this source has not written: "
                "start with a new checkpoint"
            ) from None

    def to_json(self) -> dict[str, Any]:
        topics = sorted({place.topic for place in self.next} | self.topic_ids.keys())
        return {topic: self._topic_json(topic) for topic in topics}

    def _topic_json(self, topic: str) -> dict[str, Any]:
        row: dict[str, Any] = {
            _ID: self.topic_ids.get(topic, ""),
            _NEXT: _numbers(self.next, topic),
        }
        new = _numbers(self.new, topic)
        return {**row, _FROM: new} if new else row

    def is_same_topic(self, other: StreamOffsets, topic: str) -> bool:
        """Unless both know an id, and not the same."""
        mine, others = self.topic_ids.get(topic, ""), other.topic_ids.get(topic, "")
        return not mine or not others or mine == others


def ranges_between(start: StreamOffsets, end: StreamOffsets) -> list[OffsetRange]:
    """What lies between two offsets of a stream. A partition that `start` does not know, or knows
    of an earlier topic of that name, begins where `end` says."""
    found = []
    for place, stop in sorted(end.next.items()):
        begin = end.new.get(place)
        if begin is None:
            begin = start.next.get(place, stop)
        found.append(OffsetRange(*place, begin, stop))
    return found


def _places(document: Mapping[str, Any], part: str) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, row in document.items()
        for partition, offset in row.get(part, {}).items()
    }


def _numbers(offsets: Mapping[TopicPartition, int], topic: str) -> dict[str, int]:
    return {
        str(place.partition): offset
        for place, offset in sorted(offsets.items())
        if place.topic == topic
    }

"""Batches that were refused because the node has no log for them: not yet, perhaps.

The leader of a new partition may be the last to hear of it. A producer that was quicker has several
batches under way; if the first comes too early and the next does not, the next must wait for it
(`log/producers.py`). So what was refused is remembered here until there is a log that it is owed
to. In memory alone, and only as much as does no harm: anybody may send to partitions that will
never be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId
from tidelog.wire.batch import BatchHeader

Place = tuple[str, TopicId, int]
"""A partition as a request names it: the topic by its name or by its id."""

MOST_PLACES = 256
MOST_PRODUCERS = 64


class Refused(NamedTuple):
    """A batch, since when it is to be sent again, and why."""

    header: BatchHeader
    since_ms: int
    error: ErrorCode


class RefusedBatches:
    """By partition and producer; the oldest are forgotten first."""

    def __init__(self) -> None:
        self.places: dict[Place, dict[int, Refused]] = {}

    def __bool__(self) -> bool:
        return bool(self.places)

    def note(self, place: Place, refused: Refused) -> None:
        """Of a producer's epoch the first counts: what was refused after it waits for it anyway."""
        producers = self.places.setdefault(place, {})
        pid, epoch = refused.header.producer_id, refused.header.producer_epoch
        known = producers.get(pid)
        if known is None or known.header.producer_epoch != epoch:
            producers[pid] = refused
        _forget_oldest(producers, MOST_PRODUCERS)
        _forget_oldest(self.places, MOST_PLACES)

    def take(self, place: Place) -> list[Refused]:
        """There is a log for them now."""
        return list(self.places.pop(place, {}).values())


def _forget_oldest(kept: dict[Any, Any], limit: int) -> None:
    while len(kept) > limit:
        del kept[next(iter(kept))]

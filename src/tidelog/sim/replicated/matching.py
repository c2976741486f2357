"""I5, I6, I13: a committed record is the same one wherever it counts, and nobody cuts it off.

A record is told by its offset and the leader epoch that wrote it: one epoch has one leader (I1),
which gives each offset out once. So which epochs a log holds below an offset says whether it is
the log that was committed, without a byte being read (reading would change what nodes know of
damage). What the bytes are is compared once, at the end (I18).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.log.epochs import Epochs
from tidelog.model.ids import NodeId, Offset, PartitionKey
from tidelog.partition.replica import Replica

NO_RECORDS = Offset(0)


def epoch_spans(epochs: Epochs, start: int, end: int) -> list[tuple[int, int]]:
    """Which epoch wrote what of [start, end): (epoch, first offset), in order."""
    if start >= end:
        return []
    later = [pair for pair in epochs.entries() if start < pair[1] < end]
    return [(epochs.epoch_of(start), start), *later]


@dataclass(slots=True)
class _Copy:
    """One replica of one life of a node."""

    replica: Replica
    matched_end: Offset = NO_RECORDS
    """Below it, what is committed was found here."""


@dataclass(slots=True)
class _Committed:
    """What was committed of one partition, over all time."""

    end: Offset = NO_RECORDS
    epochs: Epochs = field(default_factory=Epochs)
    copies: dict[NodeId, _Copy] = field(default_factory=dict)


class Matching:
    """Of one run. `find` hears of what is wrong."""

    def __init__(self, find: Callable[[str, str], None]) -> None:
        self._find = find
        self._committed: dict[PartitionKey, _Committed] = {}

    def commit(self, replica: Replica, watermark: Offset) -> None:
        """The leader holds it committed up to `watermark`, farther than anybody before. Where its
        own log is damaged, it does not know the epochs: the next leader tells them."""
        known = self._committed.setdefault(replica.key, _Committed())
        lost = replica.log.lost_ranges()
        if any(first < watermark and behind > known.end for first, behind in lost):
            return
        for epoch, start in epoch_spans(replica.log.epochs, known.end, watermark):
            known.epochs.note(epoch, start)
        known.end = watermark

    def look(self, node_id: NodeId, replica: Replica, *, counts: bool) -> None:
        """At a replica that may have changed. Of one that `counts`, because it leads or may be
        elected, everything must match; of another, what it takes for committed itself."""
        known = self._committed.get(replica.key)
        if known is None:
            return
        copy = known.copies.get(node_id)
        if copy is None or copy.replica is not replica:
            copy = known.copies[node_id] = _Copy(replica)
        log_end = replica.log.log_end_offset
        if log_end < copy.matched_end:
            self._cut_off(node_id, copy)
        told = log_end if counts else replica.high_watermark
        end = min(told, known.end)
        if end > copy.matched_end:
            self._compare(node_id, copy, known, end)
            copy.matched_end = end

    def _cut_off(self, node_id: NodeId, copy: _Copy) -> None:
        """I13. What is damaged is fetched again, when nobody relies on it any more."""
        log = copy.replica.log
        if not log.damage:
            text = f"{copy.replica.name}: node {node_id} cut its log to {log.log_end_offset}"
            self._find("I13", f"{text}; it had what was committed up to {copy.matched_end}")
        copy.matched_end = log.log_end_offset

    def _compare(self, node_id: NodeId, copy: _Copy, known: _Committed, end: Offset) -> None:
        log = copy.replica.log
        start = max(copy.matched_end, log.log_start_offset)
        damaged = log.first_damaged_offset()
        if damaged is not None:  # an epoch may begin within the damage
            end = min(end, damaged)
        here = epoch_spans(log.epochs, start, end)
        there = epoch_spans(known.epochs, start, end)
        if here != there:
            text = f"{copy.replica.name}: of the offsets {start} to {end} node {node_id} has"
            self._find("I5", f"{text} {here} (epoch, first offset); committed were {there}")

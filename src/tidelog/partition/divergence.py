"""Where two logs part: found by leader epochs, never by a watermark (KIP-101, KIP-279).

Who has read up to an offset says which epoch wrote the last record it has. If our log has that
epoch up to at least that offset, the two agree so far; if not, the answer is the largest epoch we
have that is not above it, and where that ends. The other side cuts its log to what both have of
that epoch, and asks again if it does not have that epoch either.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.log.log import Log
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset


class EpochEnd(NamedTuple):
    """The largest epoch in a log not above the one in question, and the offset where it ends."""

    epoch: LeaderEpoch
    end_offset: Offset


def find_divergence(log: Log, *, epoch: LeaderEpoch, offset: Offset) -> EpochEnd | None:
    """Where the log of somebody whose last record, before `offset`, is of `epoch` parts from ours;
    None if it does not."""
    if epoch == NO_EPOCH:
        return None
    found, end_offset = log.epoch_end_offset(epoch)
    if found == NO_EPOCH:  # we have no records at all: what they have is either gone or not ours
        is_behind = offset <= log.log_start_offset
        return None if is_behind else EpochEnd(epoch, log.log_end_offset)
    if found == epoch and end_offset >= offset:
        return None
    return EpochEnd(found, end_offset)


def choose_truncation(log: Log, diverging: EpochEnd) -> Offset:
    """Where to cut `log`, given what the leader said of its own. Below what both have for sure, the
    logs are equal: a batch is known by its epoch and offset."""
    epoch, end_offset = log.epoch_end_offset(diverging.epoch)
    if epoch == diverging.epoch:
        return min(end_offset, diverging.end_offset)
    return max(end_offset, log.log_start_offset)

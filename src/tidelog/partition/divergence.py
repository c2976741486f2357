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


def is_forgotten(log: Log, *, epoch: LeaderEpoch, offset: Offset) -> bool:
    """Whether a log whose last record, before `offset`, is of `epoch` lies wholly below our start,
    where we no longer know which epoch wrote what: nothing here tells whether it is the same."""
    is_before_start = epoch != NO_EPOCH and offset == log.log_start_offset
    return is_before_start and log.epochs.epoch_of(offset - 1) == NO_EPOCH


def is_uncertain(log: Log, *, epoch: LeaderEpoch, diverging: EpochEnd) -> bool:
    """Whether damage in `log` may have made `diverging`, our answer for `epoch`, a wrong one.

    Of an epoch that began where the log can't be read, the log may know nothing, or a start that is
    too late. Epochs never fall, so these are the epochs above that of the last record before the
    hole, up to that of the first record behind it: none, if the two are of the same epoch. A hole
    with nothing behind it may hide any later epoch. Hidden epochs change the answer only for who
    asks for an epoch from the one before the hole on, and below the one behind it.
    """
    for first, behind in log.lost_ranges():
        if behind < log.log_end_offset and epoch >= log.epochs.epoch_of(behind):
            continue
        is_hidden = epoch >= log.epochs.epoch_of(first - 1)
        if is_hidden and diverging.end_offset > first:
            return True
    return False


def choose_truncation(log: Log, diverging: EpochEnd) -> Offset:
    """Where to cut `log`, given what the leader said of its own. Below what both have for sure, the
    logs are equal: a batch is known by its epoch and offset."""
    epoch, end_offset = log.epoch_end_offset(diverging.epoch)
    if epoch == diverging.epoch:
        return min(end_offset, diverging.end_offset)
    return max(end_offset, log.log_start_offset)

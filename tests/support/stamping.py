"""Batches as a leader leaves them."""

from __future__ import annotations

from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.batch import read_header, stamp_all


def stamp(batch: bytearray | memoryview, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
    """One batch, in place."""
    stamp_all(memoryview(batch), [read_header(batch)], base_offset, leader_epoch)

"""From the head znode to committed records: how every node follows the metadata log.

A watch on the head says that there is more. What is missing is read batch by batch, or, by a node
that comes late, from the snapshot on; many batches are asked for at once. A batch is written in one
operation with the head that counts it in, so whoever has seen the head finds the batch, unless a
newer snapshot has taken its place meanwhile: then the head says so.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from tidelog.metadata.image import Image
from tidelog.metadata.records import MetadataRecord
from tidelog.metadata.snapshot import decode_image
from tidelog.model.ids import Offset
from tidelog.zookeeper.paths import (
    HEAD,
    LOG,
    Head,
    SnapshotPlace,
    batch_path,
    decode_batch,
    first_offset,
    open_batch,
    piece_path,
    snapshot_path,
)
from tidelog.zookeeper.requests import Children, Get, Got, Listed, Request
from tidelog.zookeeper.talks import Pause, Talk

_WINDOW = 64
"""Batches asked for at once."""

_FEW = 8
"""Records behind the head that are fetched without a look at what batches there are."""

_RETRY_MS = 100.0

Step = Generator[Request | tuple[Request, ...] | Pause, Any, bool]
"""Part of a talk; gives whether it has led anywhere."""


class Follower:
    """What this node has read of the log, and has not yet given out."""

    def __init__(self) -> None:
        self.fetched = Offset(0)
        self.head = Head()
        self.head_version = 0
        self._ready: list[MetadataRecord] = []
        self._restored: Image | None = None
        self.applied = Offset(0)
        """All before it was given out."""

    # --- what others see ------------------------------------------------------------------------

    def take_restored(self) -> Image | None:
        restored, self._restored = self._restored, None
        return restored

    def take_records(self) -> list[MetadataRecord]:
        self.applied = self.fetched
        ready, self._ready = self._ready, []
        return ready

    def advance(self, first: Offset, records: list[MetadataRecord]) -> None:
        """Committed records, from whoever learns of them first."""
        if first == self.fetched:
            self._ready += records
            self.fetched = Offset(first + len(records))

    # --- talks ----------------------------------------------------------------------------------

    def follow(self) -> Talk:
        """Until all that the head counts in has been read."""
        while True:
            got = yield Get(HEAD, watches=True)
            if isinstance(got, Got):
                head = Head.decode(got.data)
                is_there = head.end >= self.fetched  # a server may be behind the one before
                if is_there and (yield from self._reach(head)):
                    self.head, self.head_version = head, got.version
                    return
            yield Pause(_RETRY_MS)

    def _reach(self, head: Head) -> Step:
        while self.fetched < head.end:
            if self.fetched < head.start:
                assert head.snapshot is not None
                is_further = yield from self._load(head.snapshot)
            elif head.end - self.fetched <= _FEW:
                is_further = yield from self._read([self.fetched])
            else:
                listed = yield Children(LOG)
                is_further = yield from self._read(self._next_of(listed))
            if not is_further:
                return False
        return True

    def _next_of(self, listed: Any) -> list[Offset]:
        names = listed.names if isinstance(listed, Listed) else ()
        offsets = sorted({first_offset(name) for name in names})
        return [offset for offset in offsets if offset >= self.fetched][:_WINDOW]

    def _read(self, offsets: list[Offset]) -> Step:
        before = self.fetched
        if not offsets:
            return False
        results = yield tuple(Get(batch_path(offset)) for offset in offsets)
        for first, got in zip(offsets, results, strict=True):
            if not isinstance(got, Got):
                break
            pieces = [got.data]
            opening = open_batch(got.data)
            if opening.pieces > 1:
                paths = [piece_path(first, opening.epoch, n) for n in range(1, opening.pieces)]
                more = yield tuple(Get(path) for path in paths)
                if not all(isinstance(piece, Got) for piece in more):
                    break
                pieces += [piece.data for piece in more]
            self.advance(first, decode_batch(pieces))
        return self.fetched > before

    def _load(self, place: SnapshotPlace) -> Step:
        path = snapshot_path(place.end, place.epoch)
        pieces = yield tuple(Get(f"{path}/{n}") for n in range(place.pieces))
        if not all(isinstance(piece, Got) for piece in pieces):
            return False
        if place.end > self.fetched:
            self._restored = decode_image(b"".join(piece.data for piece in pieces))
            self._ready = []
            self.fetched = place.end
        return True

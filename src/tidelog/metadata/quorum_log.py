"""The metadata log as the quorum sees it: batches in a log of ours, and snapshots beside it.

A snapshot is a file named after where it ends and by which epoch, as Kafka names them; its content
is the quorum's and carries a checksum. It becomes true with its rename; what it replaces is deleted
after that. The room that is reserved for metadata is for the log and the votes: a snapshot may be
larger than all of it, and the log goes on without one. So `disk` is the plain one, and on a full
disk a snapshot leaves nothing behind.
"""

from __future__ import annotations

import re
from contextlib import suppress

from tidelog.log.disk import Disk, DiskError
from tidelog.log.log import Log
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset
from tidelog.quorum import batches
from tidelog.quorum.batches import Batch
from tidelog.quorum.ports import EpochEnd, SnapshotId

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_TEMPORARY = ".tmp"


class LogDamaged(Exception):
    """The metadata log can't be read whole: the node must not go on and guess."""


class MetadataLog:
    """A `quorum.ports.QuorumLog` on a `log.Log`."""

    def __init__(self, disk: Disk, log: Log) -> None:
        self.log = log
        self._disk = disk
        self._directory = log.directory.path
        self._delete_unfinished()
        self._snapshot_id = self._find_snapshot()
        self.now_ms = 0
        """The wall time for the batches appended next."""

    # --- the log --------------------------------------------------------------------------------

    @property
    def start_offset(self) -> Offset:
        return self.log.log_start_offset

    @property
    def end_offset(self) -> Offset:
        return self.log.log_end_offset

    @property
    def durable_end_offset(self) -> Offset:
        return self.log.flushed_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        latest = self.log.epochs.latest
        if latest == NO_EPOCH and self._snapshot_id is not None:
            return self._snapshot_id.epoch
        return latest

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        return self.log.epochs.epoch_of(offset)

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd:
        found, end = self.log.epoch_end_offset(epoch)
        if end < self.start_offset:
            return EpochEnd(self.last_epoch, self.start_offset)
        return EpochEnd(found, end)

    def append(self, batch: Batch) -> None:
        assert batch.base_offset == self.end_offset, "a hole in the metadata log"
        encoded = batches.encode(batch, timestamp_ms=self.now_ms)
        appended = self.log.append(
            memoryview(encoded), leader_epoch=batch.epoch, now_ms=self.now_ms
        )
        assert appended.error is ErrorCode.NONE, f"our own batch was refused: {appended!r}"

    def truncate_to(self, offset: Offset) -> None:
        self.log.truncate_to(offset)

    def read(
        self, offset: Offset, *, max_bytes: int, limit_offset: Offset | None = None
    ) -> tuple[Batch, ...]:
        limit = self.end_offset if limit_offset is None else limit_offset
        if offset >= limit:
            return ()
        span = self.log.read(offset, max_bytes=max_bytes, limit_offset=limit, at_least_one=True)
        if span is None or isinstance(span, ErrorCode):
            raise LogDamaged(f"the metadata log is damaged at offset {offset}")
        return batches.decode(span.read())

    # --- snapshots ------------------------------------------------------------------------------

    @property
    def snapshot_id(self) -> SnapshotId | None:
        return self._snapshot_id

    def snapshot_size(self, snapshot_id: SnapshotId) -> int | None:
        path = self._path(snapshot_id)
        if not self._disk.exists(path):
            return None
        file = self._disk.open(path)
        size = file.size()
        file.close()
        return size

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        file = self._disk.open(self._path(snapshot_id))
        data = file.read(position, max_bytes)
        file.close()
        return data

    def save_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        self._write(snapshot_id, data)
        self.log.advance_start(snapshot_id.end_offset)
        self._forget_older(snapshot_id)

    def install_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        self._write(snapshot_id, data)
        self.log.start_at(snapshot_id.end_offset)
        self._forget_older(snapshot_id)

    def _write(self, snapshot_id: SnapshotId, data: bytes) -> None:
        path = self._path(snapshot_id)
        try:
            file = self._disk.open(path + _TEMPORARY, create=True)
            file.truncate(0)
            file.write(0, [data])
            file.sync()
            file.close()
            self._disk.rename(path + _TEMPORARY, path)
        except DiskError:
            with suppress(DiskError):
                self._disk.delete(path + _TEMPORARY)
            raise
        self._disk.directory(self._directory).sync()
        self._snapshot_id = snapshot_id

    def _delete_unfinished(self) -> None:
        """What a crash has left of snapshots that were being written."""
        for name in self._disk.list(self._directory):
            if _NAME.fullmatch(name.removesuffix(_TEMPORARY)) and name.endswith(_TEMPORARY):
                self._disk.delete(f"{self._directory}/{name}")

    def _forget_older(self, kept: SnapshotId) -> None:
        for snapshot_id in self._snapshots():
            if snapshot_id < kept:
                self._disk.delete(self._path(snapshot_id))

    def _find_snapshot(self) -> SnapshotId | None:
        """The newest; one that the log has not followed yet (a crash came between) counts."""
        found = max(self._snapshots(), default=None)
        if found is not None and found.end_offset > self.log.log_end_offset:
            self.log.start_at(found.end_offset)
        return found

    def _snapshots(self) -> list[SnapshotId]:
        matches = (_NAME.fullmatch(name) for name in self._disk.list(self._directory))
        return [
            SnapshotId(Offset(int(match[1])), LeaderEpoch(int(match[2])))
            for match in matches
            if match
        ]

    def _path(self, snapshot_id: SnapshotId) -> str:
        end, epoch = snapshot_id
        return f"{self._directory}/{end:020d}-{epoch:010d}.checkpoint"

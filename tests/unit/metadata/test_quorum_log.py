"""The metadata log under a quorum, on real files: what was promised is there after a restart."""

from __future__ import annotations

from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tidelog.log.disk import DiskFull
from tidelog.log.log import Log
from tidelog.metadata.quorum_log import MetadataLog
from tidelog.metadata.vote_file import VoteFile
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.settings import topic_settings
from tidelog.quorum.events import LogFlushed, TakeOffice, Ticked
from tidelog.quorum.ports import SnapshotId
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.runtime.file_disk import FileDisk
from tidelog.sim.disk import SimDisk

ME = ReplicaKey(NodeId(1), UUID(int=7))


class Voter:
    """A quorum of one on the files of `path`; each is a new process."""

    def __init__(self, path: Path, *, clean: bool = False) -> None:
        self.disk = FileDisk(path)
        self.disk.make_directory("metadata")
        log = Log.open(self.disk, "metadata", topic_settings({}), clean=clean)
        self.log = MetadataLog(self.disk, log)
        self.quorum = Quorum(
            ME,
            VoterSet.of_ids([1]),
            log=self.log,
            store=VoteFile(self.disk, "metadata"),
            random=Random(1),
            now_ms=0.0,
        )

    def lead(self) -> None:
        self.quorum.step(0.0, Ticked())
        self.log.log.sync()
        effects = self.quorum.step(1.0, LogFlushed())
        assert any(isinstance(effect, TakeOffice) for effect in effects)

    def commit(self, *records: bytes) -> None:
        self.quorum.propose(2.0, records)
        self.log.log.sync()
        self.quorum.step(3.0, LogFlushed())

    def committed(self) -> list[bytes]:
        found: list[bytes] = []
        offset = self.log.start_offset
        while batches := self.quorum.read_committed(offset):
            for batch in batches:
                found += batch.records
                offset = batch.next_offset
        return found


def test_committed_records_and_the_epoch_survive_a_restart(tmp_path: Path) -> None:
    first = Voter(tmp_path)
    first.lead()
    first.commit(b"one", b"two")
    first.commit(b"three")
    assert first.committed() == [b"one", b"two", b"three"]
    second = Voter(tmp_path)
    assert second.quorum.epoch == first.quorum.epoch
    second.lead()
    assert second.quorum.epoch == first.quorum.epoch + 1
    assert second.committed() == [b"one", b"two", b"three"]


def test_a_snapshot_takes_the_place_of_the_log_before_it(tmp_path: Path) -> None:
    first = Voter(tmp_path)
    first.lead()
    first.commit(b"one", b"two")
    end = first.quorum.high_watermark
    first.quorum.snapshot(end, b"all of it")
    first.commit(b"three")
    second = Voter(tmp_path)
    assert second.quorum.restored_state() == b"all of it"
    assert second.log.snapshot_id == SnapshotId(end, LeaderEpoch(1))
    second.lead()
    assert second.committed()[-1:] == [b"three"]


def test_a_snapshot_from_elsewhere_begins_the_log_anew(tmp_path: Path) -> None:
    voter = Voter(tmp_path)
    snapshot_id = SnapshotId(Offset(100), LeaderEpoch(3))
    voter.log.install_snapshot(snapshot_id, b"bytes")
    log = voter.log
    assert (log.start_offset, log.end_offset, log.last_epoch) == (100, 100, 3)
    assert log.read_snapshot(snapshot_id, 0, 100) == b"bytes"


@pytest.fixture
def disk() -> SimDisk:
    made = SimDisk(Random(1))
    made.make_directory("metadata")
    return made


def opened(disk: SimDisk) -> MetadataLog:
    return MetadataLog(disk, Log.open(disk, "metadata", topic_settings({}), clean=False))


def unfinished(disk: SimDisk) -> list[str]:
    return [name for name in disk.list("metadata") if name.endswith(".checkpoint.tmp")]


def test_a_snapshot_that_finds_no_room_leaves_nothing_behind(disk: SimDisk) -> None:
    log = opened(disk)
    snapshot_id = SnapshotId(Offset(100), LeaderEpoch(3))
    disk.faults.capacity_bytes = disk.used_bytes() + 40_000
    with pytest.raises(DiskFull):
        log.install_snapshot(snapshot_id, bytes(100_000))
    assert unfinished(disk) == []
    assert (log.snapshot_id, log.end_offset) == (None, 0)
    disk.faults.capacity_bytes = None
    log.install_snapshot(snapshot_id, bytes(100_000))
    assert (log.snapshot_id, log.end_offset) == (snapshot_id, 100)


def test_what_a_crash_has_left_of_a_snapshot_is_deleted_at_the_next_start(disk: SimDisk) -> None:
    path = f"metadata/{100:020d}-{3:010d}.checkpoint.tmp"
    disk.open(path, create=True).write(0, [b"half"])
    disk.open("metadata/of-another.tmp", create=True)
    assert opened(disk).snapshot_id is None
    assert unfinished(disk) == []
    assert disk.exists("metadata/of-another.tmp")

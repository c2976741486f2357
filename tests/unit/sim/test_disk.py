"""The simulated disk: what a crash may leave, and what it may not."""

from __future__ import annotations

from random import Random

import pytest

from tidelog.log.disk import Disk, DiskError, DiskFull, FileSpan
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_faults import PowerLost
from tidelog.sim.images import SECTOR_BYTES

SEEDS = range(200)


def disk_with(path: str, data: bytes, *, seed: int = 0) -> SimDisk:
    """A disk with one durable file."""
    disk = SimDisk(Random(seed))
    file = disk.open(path, create=True)
    file.write(0, [data])
    file.sync()
    disk.directory("").sync()
    return disk


def content(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(0, file.size())


def test_synced_bytes_under_a_synced_name_survive_every_power_failure() -> None:
    for seed in SEEDS:
        disk = disk_with("log", b"a" * 2_000, seed=seed)
        disk.lose_power()
        assert content(disk, "log") == b"a" * 2_000


def test_a_file_whose_name_was_never_synced_may_vanish_with_its_synced_bytes() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        file = disk.open("log", create=True)
        file.write(0, [b"data"])
        file.sync()
        disk.lose_power()
        outcomes.add(disk.exists("log"))
        assert not disk.exists("log") or content(disk, "log") == b"data"
    assert outcomes == {True, False}


def test_an_unsynced_write_is_lost_kept_or_torn_at_sectors() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = disk_with("log", b"", seed=seed)
        disk.open("log").write(0, [b"x" * (3 * SECTOR_BYTES)])
        disk.lose_power()
        left = content(disk, "log")
        sectors = [left[i : i + SECTOR_BYTES] for i in range(0, len(left), SECTOR_BYTES)]
        outcomes.add(len(left))
        for sector in sectors:
            assert sector.strip(b"x") == b"" or sector.strip(b"\0") == b""
    assert 0 in outcomes
    assert 3 * SECTOR_BYTES in outcomes
    assert len(outcomes) > 2


def test_later_sectors_may_survive_without_earlier_ones() -> None:
    holes = 0
    for seed in SEEDS:
        disk = disk_with("log", b"", seed=seed)
        disk.open("log").write(0, [b"x" * (4 * SECTOR_BYTES)])
        disk.lose_power()
        left = content(disk, "log")
        holes += left[:1] == b"\0" and b"x" in left
    assert holes > 0


def test_a_file_may_stay_longer_than_what_arrived_in_it() -> None:
    extended = 0
    for seed in SEEDS:
        disk = disk_with("log", b"a", seed=seed)
        disk.open("log").write(1, [b"x" * 5_000])
        disk.lose_power()
        left = content(disk, "log")
        extended += len(left) > 1 and set(left[1:]) == {0}
    assert extended > 0


def test_a_kill_keeps_what_was_written() -> None:
    disk = disk_with("log", b"a")
    disk.open("log").write(1, [b"b"])
    disk.lose_process()
    assert content(disk, "log") == b"ab"


def test_handles_of_a_dead_process_are_refused() -> None:
    disk = disk_with("log", b"a")
    file = disk.open("log")
    disk.lose_process()
    with pytest.raises(AssertionError, match="handle of the dead"):
        file.read(0, 1)


def test_a_flush_covers_what_was_written_before_it_began() -> None:
    for seed in SEEDS:
        disk = disk_with("log", b"", seed=seed)
        file = disk.open("log")
        file.write(0, [b"a" * SECTOR_BYTES])
        ticket = disk.begin_flush([file])
        file.write(SECTOR_BYTES, [b"b" * SECTOR_BYTES])
        disk.finish_flush(ticket)
        disk.lose_power()
        left = content(disk, "log")
        assert left[:SECTOR_BYTES] == b"a" * SECTOR_BYTES
        assert left[SECTOR_BYTES:].strip(b"b\0") == b""


def test_a_power_failure_within_a_flush_promises_nothing() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = disk_with("log", b"", seed=seed)
        file = disk.open("log")
        file.write(0, [b"a" * SECTOR_BYTES])
        disk.begin_flush([file])
        disk.lose_power()
        outcomes.add(content(disk, "log"))
    assert {b"", b"a" * SECTOR_BYTES} <= outcomes


def test_a_rename_is_atomic_whatever_happens() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = disk_with("new", b"old", seed=seed)
        temporary = disk.open("temporary", create=True)
        temporary.write(0, [b"new"])
        temporary.sync()
        disk.directory("").sync()
        disk.rename("temporary", "new")
        disk.lose_power()
        outcomes.add((content(disk, "new"), disk.exists("temporary")))
    assert outcomes == {(b"old", True), (b"new", False)}


def test_names_of_one_directory_survive_as_a_prefix() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        for name in ("a", "b", "c"):
            disk.open(name, create=True)
        disk.lose_power()
        outcomes.add("".join(disk.list("")))
    assert outcomes == {"", "a", "ab", "abc"}


def test_a_synced_directory_is_found_only_if_its_own_name_was_synced() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        disk.make_directory("topics/one")
        disk.open("topics/one/log", create=True)
        disk.directory("topics/one").sync()
        disk.lose_power()
        outcomes.add(disk.exists("topics/one/log"))
    assert True in outcomes


def test_a_deleted_directory_is_gone_whole_or_emptied_in_order() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        disk.make_directory("topic")
        for name in ("a", "b"):
            disk.open(f"topic/{name}", create=True)
        disk.directory("topic").sync()
        disk.directory("").sync()
        disk.delete("topic")
        disk.lose_power()
        outcomes.add("".join(disk.list("topic")) if disk.exists("topic") else None)
    assert outcomes == {None, "", "b", "ab"}


def test_a_failed_fsync_drops_pages_and_the_next_one_lies() -> None:
    lost = 0
    for seed in SEEDS:
        disk = disk_with("log", b"", seed=seed)
        file = disk.open("log")
        file.write(0, [b"a" * SECTOR_BYTES])
        disk.faults.sync_error_rate = 1.0
        with pytest.raises(DiskError):
            file.sync()
        disk.faults.heal()
        file.sync()
        assert content(disk, "log") == b"a" * SECTOR_BYTES
        disk.lose_process()
        lost += content(disk, "log") != b"a" * SECTOR_BYTES
    assert lost > 0


def test_a_full_disk_refuses_growth_and_takes_it_again_when_there_is_room() -> None:
    disk = disk_with("log", b"a" * SECTOR_BYTES)
    disk.faults.capacity_bytes = disk.used_bytes()
    file = disk.open("log")
    with pytest.raises(DiskFull):
        file.write(SECTOR_BYTES, [b"b"])
    with pytest.raises(DiskFull):
        disk.open("another", create=True)
    file.write(0, [b"c"])
    disk.faults.capacity_bytes = None
    file.write(SECTOR_BYTES, [b"b"])
    assert content(disk, "log") == b"c" + b"a" * (SECTOR_BYTES - 1) + b"b"


def test_a_failing_write_leaves_any_beginning_of_it() -> None:
    sizes = set()
    for seed in SEEDS:
        disk = disk_with("log", b"", seed=seed)
        disk.faults.write_error_rate = 1.0
        with pytest.raises(DiskError):
            disk.open("log").write(0, [b"abcd"])
        sizes.add(len(content(disk, "log")))
    assert sizes == {0, 1, 2, 3, 4}


def test_a_deleted_file_stays_readable_and_takes_up_room_while_it_is_sent() -> None:
    disk = disk_with("log", b"data")
    file = disk.open("log")
    span = FileSpan(file, 0, 4)
    disk.delete("log")
    assert span.read() == b"data"
    assert not disk.exists("log")
    assert disk.used_bytes() == SECTOR_BYTES
    del span
    assert disk.used_bytes() == 0
    with pytest.raises(AssertionError, match="was deleted"):
        file.read(0, 4)


def test_the_power_fails_after_a_given_number_of_changes() -> None:
    disk = disk_with("log", b"")
    disk.faults.changes_left = 2
    file = disk.open("log")
    file.write(0, [b"a"])
    file.write(1, [b"b"])
    with pytest.raises(PowerLost):
        file.write(2, [b"c"])


def test_the_same_seed_leaves_the_same_disk() -> None:
    def left(seed: int) -> bytes:
        disk = disk_with("log", b"", seed=seed)
        for number in range(20):
            disk.open("log").write(number * 300, [bytes((number,)) * 300])
        disk.lose_power()
        return content(disk, "log")

    assert [left(seed) for seed in range(20)] == [left(seed) for seed in range(20)]
    assert len({left(seed) for seed in range(20)}) > 5


def test_a_reader_is_told_whether_a_file_has_only_grown() -> None:
    disk = disk_with("log", b"abc")
    image, file = disk.files()["log"], disk.open("log")
    file.write(3, [b"def"])
    assert image.rewrites == 0
    file.write(5, [b"F"])
    assert image.rewrites == 1
    file.truncate(2)
    assert image.rewrites == 2


def test_files_can_be_asked_for_by_the_end_of_their_names() -> None:
    disk = disk_with("0.log", b"")
    disk.make_directory("topics/t")
    for name in ("topics/t/1.log", "topics/t/1.index"):
        disk.open(name, create=True)
    assert list(disk.files(ending=".log")) == ["0.log", "topics/t/1.log"]
    assert list(disk.files(below="topics", ending=".index")) == ["topics/t/1.index"]

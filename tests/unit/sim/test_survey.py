"""What the simulator reads of a disk: logs while they are written, closed and compacted."""

from __future__ import annotations

from random import Random

from tests.unit.log.logs import NAME, a_batch, append, flush, open_log, settings

from tidelog.log.paths import INDEX, LOG, offset_path, swap_path
from tidelog.sim.disk import SimDisk
from tidelog.sim.survey import logs_before_crash, plant_bytes_behind, plant_damage
from tidelog.sim.witness import offsets_files

HOME = "topics/__consumer_offsets.id/0"


def disk_with(*paths: str) -> SimDisk:
    """Each file holds its own name."""
    disk = SimDisk(Random(0))
    disk.make_directory(HOME)
    for path in paths:
        disk.open(path, create=True).write(0, (path.encode(),))
    return disk


def log(offset: int) -> str:
    return offset_path(HOME, offset, LOG)


def read(disk: SimDisk) -> list[tuple[str, int, str]]:
    found = offsets_files(disk)
    return [(path, number, image.cached.decode()) for path, number, image in found]


def test_the_log_is_its_segments_in_order() -> None:
    disk = disk_with(log(107), log(0), offset_path(HOME, 0, INDEX))
    assert read(disk) == [(log(0), 0, log(0)), (log(107), 0, log(107))]


def test_a_compacted_segment_stands_for_those_it_is_about_to_replace() -> None:
    """The second of the three is deleted already; the third is not concerned."""
    swap = swap_path(HOME, 0, 107)
    disk = disk_with(log(0), swap, log(107))
    assert read(disk) == [(log(0), 0, swap), (log(107), 0, log(107))]


def test_none_of_those_counts_that_are_still_there() -> None:
    swap = swap_path(HOME, 50, 107)
    disk = disk_with(log(0), log(50), log(80), swap, log(107))
    assert [text for _, _, text in read(disk)] == [log(0), swap, log(107)]


def test_a_log_with_one_segment_has_none_that_compaction_could_touch() -> None:
    assert not logs_before_crash(disk_with(log(0)))[HOME].has_closed_segments
    seen = logs_before_crash(disk_with(log(0), log(107)))[HOME]
    assert seen.has_closed_segments
    assert seen.flipped(0, 1).has_closed_segments
    assert seen.lengthened(0, b"x").has_closed_segments


def test_the_node_s_read_errors_are_not_met_by_who_plants_damage() -> None:
    disk = SimDisk(Random(1))
    opened = open_log(disk, config=settings(segment_bytes=200))
    for _ in range(6):
        append(opened, a_batch())
    flush(opened)
    opened.close_cleanly()
    disk.faults.read_error_rate = 1.0
    assert plant_damage(disk, NAME, Random(2)) is not None
    assert plant_bytes_behind(disk, NAME, Random(2)) is not None
    assert disk.faults.read_error_rate == 1.0
    assert not disk.faults.counted

"""One of three nodes comes back with a directory that is empty, old or damaged: it is not believed
to have what it lacks, nothing damaged is served, and it gets what it needs from the others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, ElectionType, TopicPartition
from tests.endtoend.cluster_stage import PARTITIONS, TOPIC, Stage, a_stage
from tests.endtoend.damaging import append_noise, flip_in, log_files, remove_segment
from tests.support.eventually import attempts, eventually

from tidelog.log.marks import MarkFile
from tidelog.runtime.file_disk import FileDisk

VICTIM = 2


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with a_stage(tmp_path, "--set", "segment.bytes=8192") as running:
        yield running


def test_a_wiped_and_an_old_directory_are_filled_before_they_count(
    stage: Stage, tmp_path: Path
) -> None:
    victim = stage.nodes[VICTIM]
    with stage.play() as traffic:
        victim.kill()
        stage.copy_data(VICTIM, tmp_path / "old")
        stage.restart(VICTIM)
        stage.wait_until_whole()
        traffic.wait_for_progress()

        # Wiped, and the leader goes at the same time: the third has all, and nobody else.
        victim.kill()
        stage.wait_until_out_of_sync(VICTIM)
        traffic.wait_for_progress()
        gone = stage.leader_of(TOPIC)
        stage.nodes[gone].kill()
        stage.wipe_data(VICTIM)
        stage.restart(VICTIM)
        traffic.wait_for_progress_on_all(PARTITIONS)
        stage.restart(gone)
        stage.wait_until_whole()

        # Old: it has records, but of long ago, and an epoch that the cluster has forgotten.
        victim.kill()
        traffic.wait_for_progress()
        stage.wipe_data(VICTIM)
        shutil.copytree(tmp_path / "old", victim.data_dir)
        stage.restart(VICTIM)


def test_damage_is_never_served_and_is_repaired_from_a_peer(stage: Stage) -> None:
    led = next(p for p in range(PARTITIONS) if stage.leader_of(TOPIC, p) == VICTIM)
    followed, other = (p for p in range(PARTITIONS) if p != led)
    victim = stage.nodes[VICTIM]
    with stage.play() as traffic:
        eventually(lambda: _has_segments(stage), "a few segments of everything")
        victim.kill()
        flip_in(None, segment=1)(stage.partition_directory(VICTIM, led), Random(1))
        remove_segment(1)(stage.partition_directory(VICTIM, followed), Random(1))
        lengthened = log_files(stage.partition_directory(VICTIM, other))[2]
        size = lengthened.stat().st_size
        append_noise(2)(lengthened.parent, Random(1))
        stage.restart(VICTIM)
        stage.wait_until_whole()
        eventually(lambda: _is_repaired(stage, followed), "the follower's repair")
        _lead_again(stage, led)
        traffic.wait_for_progress()
        _read_to(stage, led, max(at[1] for at in traffic.placed.values() if at[0] == led))
        eventually(lambda: _is_repaired(stage, led), "the former leader's repair")
        os.truncate(lengthened, size)  # by hand, so that all copies are equal again
    assert f"{TOPIC}-{led}: " in victim.log
    assert "quarantined" in victim.log
    assert victim.log.count("no records affected") == 1
    assert not _is_repaired(stage, other), "what holds no record is not fetched again"
    assert "LOST" not in victim.log


def test_a_flip_under_a_running_node_is_found_and_repaired_though_nobody_reads(
    tmp_path: Path,
) -> None:
    settings = ("--set", "segment.bytes=8192", "--set", "log.scrub.interval.ms=1000")
    with a_stage(tmp_path, *settings) as stage:
        led = next(p for p in range(PARTITIONS) if stage.leader_of(TOPIC, p) == VICTIM)
        followed = next(p for p in range(PARTITIONS) if p != led)
        with stage.play():
            eventually(lambda: _has_segments(stage), "a few segments of everything")
            for partition in (led, followed):
                _flip_in_place(log_files(stage.partition_directory(VICTIM, partition))[1])
            eventually(lambda: _is_repaired(stage, led), "the former leader's repair")
            eventually(lambda: _is_repaired(stage, followed), "the follower's repair")
        assert "LOST" not in stage.nodes[VICTIM].log


def _flip_in_place(path: Path) -> None:
    """As a failing disk does, and not as an editor: the file stays the same."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes((byte ^ 4,)))


def _read_to(stage: Stage, partition: int, end: int) -> None:
    """From the beginning: the damage is met on the way, and got around."""
    consumer = Consumer(
        {"bootstrap.servers": stage.bootstrap, "group.id": "passer-by", "log_level": 0}
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0)])
    expected = 0
    for _ in attempts(f"all records up to {end}"):
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            assert message.offset() == expected
            expected += 1
        if expected > end:
            break
    consumer.close()


def _has_segments(stage: Stage) -> bool:
    """The first few are closed, and known to be flushed."""
    disk = FileDisk(stage.nodes[VICTIM].data_dir)
    for number in range(PARTITIONS):
        directory = stage.partition_directory(VICTIM, number)
        mark = MarkFile(disk, str(directory.relative_to(stage.nodes[VICTIM].data_dir))).load()
        files = log_files(directory)
        if mark is None or len(files) < 4 or mark.flushed_offset <= int(files[3].stem):
            return False
    return True


def _is_repaired(stage: Stage, partition: int) -> bool:
    return any(
        f"{TOPIC}-{partition}: damaged at offset" in line
        for line in stage.nodes[VICTIM].log.splitlines()
    )


def _lead_again(stage: Stage, partition: int) -> None:
    """The victim is the first of the partition's replicas, so it may be asked for."""
    admin = stage.admin()

    def is_leading() -> bool:
        wanted = [TopicPartition(TOPIC, partition)]
        admin.elect_leaders(ElectionType.PREFERRED, wanted).result(60)
        return stage.leader_of(TOPIC, partition) == VICTIM

    eventually(is_leading, f"node {VICTIM} to lead partition {partition} again")

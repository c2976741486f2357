"""One of three nodes has trouble with its disk: it steps aside, the others go on, it comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.endtoend.cluster_stage import COUNT, PARTITIONS, TOPIC, Stage, a_stage
from tests.endtoend.failing_disk import FailingDisk
from tests.endtoend.small_disk import ClaimedDisk, SmallDisk, mounted_disk
from tests.support.eventually import eventually
from tests.support.raw_client import RawClient

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

VICTIM = 2
_IMPATIENT = ("--set", "replica.lag.time.max.ms=3000")


def test_a_node_whose_fsync_fails_ends_and_comes_back_whole(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path / "disk")
    with a_stage(tmp_path, environments={VICTIM: disk.environment}) as stage:
        victim = stage.nodes[VICTIM]
        with stage.play() as traffic:
            disk.set("fail", True)
            eventually(lambda: victim.process.poll() is not None, "the node to end")
            assert victim.process.returncode == 1
            assert "the disk failed (" in victim.log.splitlines()[-1]
            stage.wait_for_other_leader(VICTIM)
            traffic.wait_for_progress_on_all(PARTITIONS)
            disk.set("fail", False)
            stage.restart(VICTIM)


@pytest.mark.parametrize("kind", ["mounted", "claimed"])
def test_a_node_whose_disk_is_full_leads_nothing_and_comes_back_when_there_is_room(
    tmp_path: Path, kind: str
) -> None:
    """Also where its log of the metadata finds no room: it stays up, and goes on by itself."""
    failing = FailingDisk(tmp_path / "disk")
    with mounted_disk(tmp_path / "mounted") as mounted:
        disk: SmallDisk = ClaimedDisk(tmp_path / "claimed", failing)
        if mounted is not None and kind == "mounted":
            disk = mounted
        with a_stage(
            tmp_path,
            *_IMPATIENT,
            environments={VICTIM: failing.environment},
            directories={VICTIM: disk.path / "data"},
        ) as stage:
            victim = stage.nodes[VICTIM]
            with stage.play() as traffic:
                assert any(stage.leader_of(TOPIC, p) == VICTIM for p in range(PARTITIONS))
                disk.fill()
                stage.wait_for_other_leader(VICTIM)
                traffic.wait_for_progress_on_all(PARTITIONS)
                disk.free()
                stage.wait_until_whole()
                assert victim.process.poll() is None


def test_a_controller_whose_disk_is_full_hands_over(tmp_path: Path) -> None:
    """Nobody else could have it moved: who leads, and who is in sync, is decided by the controller
    alone."""
    disks = {node_id: FailingDisk(tmp_path / f"disk-{node_id}") for node_id in range(1, COUNT + 1)}
    environments = {node_id: disk.environment for node_id, disk in disks.items()}
    with a_stage(tmp_path, *_IMPATIENT, environments=environments) as stage:
        victim = stage.controller()
        with stage.play() as traffic:
            disks[victim].set("full", True)
            stage.wait_for_other_leader(victim)
            traffic.wait_for_progress_on_all(PARTITIONS)
            witness = next(node for node in stage.nodes if node != victim)
            assert stage.controller(seen_by=witness) != victim
            disks[victim].set("full", False)
            stage.wait_until_whole()
            assert stage.nodes[victim].process.poll() is None


def test_a_cluster_elects_and_restarts_on_disks_that_are_full_to_the_last_byte(
    tmp_path: Path,
) -> None:
    """The room kept for the metadata is what it takes; where nothing may be mounted, there is no
    such disk, and the disk claims to be full for the reserve as well."""
    with mounted_disk(tmp_path / "mounted") as mounted:
        if mounted is None:
            return
        directories = {node_id: mounted.path / f"node-{node_id}" for node_id in range(1, COUNT + 1)}
        with (
            a_stage(tmp_path, *_IMPATIENT, directories=directories) as stage,
            stage.play() as traffic,
        ):
            traffic.wait_for_progress_on_all(PARTITIONS)
            mounted.fill()
            for _ in range(2):
                victim = stage.controller()
                stage.nodes[victim].kill()
                stage.wait_for_other_leader(victim)
                stage.restart(victim)
            assert _creation_error(stage) in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
            assert all(node.process.poll() is None for node in stage.nodes.values())
            mounted.free()
            stage.wait_until_whole()
            traffic.wait_for_progress_on_all(PARTITIONS)
            assert all(node.process.poll() is None for node in stage.nodes.values())


def _creation_error(stage: Stage) -> ErrorCode:
    """What a topic's creation is answered."""
    topic = CreatableTopic(name="made-while-full", num_partitions=1, replication_factor=COUNT)
    with RawClient(stage.nodes[stage.controller()]) as client:
        answer = client.request(CreateTopicsRequest(topics=[topic]))
    error: ErrorCode = answer.topics[0].error_code
    return error

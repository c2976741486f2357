"""The raw group client against a real node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.bench.admin import Admin
from tidelog.bench.frames import ACKS_LEADER, SINGLE, produce_frames, record_batch
from tidelog.bench.jobs import PumpJob, write_frames
from tidelog.bench.load import run_job
from tidelog.bench.membership import (
    HEARTBEAT_VERSION,
    OFFSET_COMMIT_VERSION,
    await_coordinator,
    commit_frames,
    commit_once,
    heartbeat_frames,
    join_together,
    seconds_to_first_record,
)
from tidelog.bench.servers import Server, node_command, running
from tidelog.model.errors import ErrorCode
from tidelog.wire.requests import decode_response

TOPIC = "events"
DELAY = {"group.initial.rebalance.delay.ms": "50"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Server]:
    command = node_command(tmp_path / "data", is_flushed=False, settings=DELAY)
    with running("node", command, log_dir=tmp_path) as server:
        with Admin(server.host, server.port) as admin:
            admin.create_topic(TOPIC, partitions=1, settings={})
        yield server


def _first_answer(node: Server, frames: list[bytes], path: Path) -> bytes:
    write_frames(path, frames)
    job = PumpJob(
        host=node.host,
        port=node.port,
        server_pid=node.pid,
        seconds=0.1,
        frames_path=str(path),
        connections=1,
        in_flight=len(frames),
        records_per_request=1,
        bytes_per_request=0,
        requests=len(frames),
    )
    return run_job(job).first_response


def test_a_new_group_reads_its_first_record(node: Server, tmp_path: Path) -> None:
    batch = record_batch(SINGLE, 1_700_000_000_000)
    frames = produce_frames(TOPIC, [0], batch=batch, acks=ACKS_LEADER)
    _first_answer(node, frames, tmp_path / "frames")
    with Admin(node.host, node.port) as admin:
        assert seconds_to_first_record(admin, "readers", TOPIC) > 0


def test_members_that_join_together_share_a_generation_and_live_on_heartbeats(
    node: Server, tmp_path: Path
) -> None:
    with Admin(node.host, node.port) as admin:
        await_coordinator(admin, "readers")
        members = join_together(admin, "readers", TOPIC, members=5)
    assert len({member.member_id for member in members}) == 5
    assert len({member.generation for member in members}) == 1
    answer = _first_answer(node, heartbeat_frames(members), tmp_path / "frames")
    body = decode_response(12, HEARTBEAT_VERSION, memoryview(answer))[1]
    assert body.error_code == ErrorCode.NONE


def test_each_commit_without_membership_is_one_record(node: Server, tmp_path: Path) -> None:
    with Admin(node.host, node.port) as admin:
        await_coordinator(admin, "readers")
        commit_once(admin, "readers", TOPIC)
        partitions = admin.partitions_of("__consumer_offsets")
        before = admin.records_in("__consumer_offsets", partitions)
        frames = commit_frames("readers", TOPIC, offsets=range(20))
        answer = _first_answer(node, frames, tmp_path / "frames")
        assert admin.records_in("__consumer_offsets", partitions) == before + 20
    body = decode_response(8, OFFSET_COMMIT_VERSION, memoryview(answer))[1]
    assert body.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_a_topic_that_is_not_there_has_no_partitions(node: Server) -> None:
    with Admin(node.host, node.port) as admin:
        assert admin.partitions_of("nothing") == 0
        assert admin.partitions_of(TOPIC) == 1

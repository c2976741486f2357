"""The raw generators against the reference server: real sockets, real processes."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.bench.jobs import DrainJob, PaceJob, PumpJob, write_frames
from tidelog.bench.load import LoadFailed, run_apart, run_job
from tidelog.bench.rdkafka import load_library
from tidelog.bench.servers import Server, reference_command, running

BATCH_BYTES = 10_000
PRODUCE, FETCH, OTHER = 0, 1, 18


def _frame(api_key: int, size: int) -> bytes:
    return struct.pack(">ihhi", 8 + size, api_key, 0, 1) + bytes(size)


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[Server]:
    command = reference_command(tmp_path, is_flushed=False, fetch_bytes=3 * BATCH_BYTES)
    with running("reference", command, log_dir=tmp_path) as server:
        yield server


def _pump_job(server: Server, frames: Path, *, requests: int) -> PumpJob:
    return PumpJob(
        host=server.host,
        port=server.port,
        server_pid=server.pid,
        seconds=0.1,
        frames_path=str(frames),
        connections=3,
        in_flight=5,
        records_per_request=10,
        bytes_per_request=BATCH_BYTES,
        requests=requests,
    )


@pytest.mark.parametrize("size", [0, BATCH_BYTES, 1_000_000])
def test_a_pump_sends_as_many_requests_as_it_is_told(
    reference: Server, tmp_path: Path, size: int
) -> None:
    frames = tmp_path / "frames"
    write_frames(frames, [_frame(PRODUCE, size)])
    outcome = run_job(_pump_job(reference, frames, requests=100))
    assert outcome.requests == 100
    assert outcome.total_records == 1_000
    written = (tmp_path / "reference.log").stat().st_size
    assert written == 100 * (12 + size)


def test_a_pump_without_a_quota_runs_for_its_time(reference: Server, tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    write_frames(frames, [_frame(OTHER, 10), _frame(PRODUCE, 100)])
    (outcome,) = run_apart([_pump_job(reference, frames, requests=0)])
    assert outcome.total_records >= outcome.records > 0


def test_a_flushing_reference_answers_every_request(tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    write_frames(frames, [_frame(PRODUCE, 100)])
    command = reference_command(tmp_path, is_flushed=True, fetch_bytes=1)
    with running("reference", command, log_dir=tmp_path) as server:
        assert run_job(_pump_job(server, frames, requests=20)).requests == 20


def test_a_drain_counts_the_batches_it_was_sent(reference: Server, tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    write_frames(frames, [_frame(PRODUCE, BATCH_BYTES)])
    run_job(_pump_job(reference, frames, requests=30))
    write_frames(frames, [_frame(FETCH, 20)])
    outcome = run_job(
        DrainJob(
            host=reference.host,
            port=reference.port,
            server_pid=reference.pid,
            seconds=0.1,
            frames_path=str(frames),
            offset_position=12,
            connections=2,
            batch_bytes=BATCH_BYTES,
            batch_records=10,
            batch_data_bytes=9_000,
            end_offset=300,
        )
    )
    assert outcome.records == outcome.requests * 10 > 0
    assert outcome.data_bytes == outcome.requests * 9_000
    assert outcome.requests % 3 == 0


def test_a_pacer_times_every_answer(reference: Server, tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    write_frames(frames, [_frame(PRODUCE, 100)])
    outcome = run_job(
        PaceJob(
            host=reference.host,
            port=reference.port,
            server_pid=reference.pid,
            seconds=0.2,
            frames_path=str(frames),
            rate=200,
        )
    )
    assert outcome.latencies is not None
    assert 0 < outcome.latencies.p50_ms <= outcome.latencies.p999_ms


def test_a_pacer_sends_its_frames_in_turn(reference: Server, tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    write_frames(frames, [_frame(PRODUCE, 100), _frame(PRODUCE, 200)])
    outcome = run_job(
        PaceJob(
            host=reference.host,
            port=reference.port,
            server_pid=reference.pid,
            seconds=0.2,
            frames_path=str(frames),
            rate=100,
        )
    )
    sent = outcome.total_records
    written = (tmp_path / "reference.log").stat().st_size
    assert written == sent * 12 + (sent + 1) // 2 * 100 + sent // 2 * 200


def test_a_pacer_of_several_connections_waits_for_all_their_answers(
    reference: Server, tmp_path: Path
) -> None:
    frames = tmp_path / "frames"
    write_frames(frames, [_frame(PRODUCE, 100)])
    outcome = run_job(
        PaceJob(
            host=reference.host,
            port=reference.port,
            server_pid=reference.pid,
            seconds=0.2,
            frames_path=str(frames),
            rate=200,
            connections=7,
        )
    )
    written = (tmp_path / "reference.log").stat().st_size
    assert written == outcome.total_records * 112


def test_a_generator_that_fails_says_why(tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    write_frames(frames, [_frame(OTHER, 1)])
    closes_at_once = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "print('ready 127.0.0.1:%d' % s.getsockname()[1], flush=True)\n"
        "while True: s.accept()[0].close()"
    )
    command = [sys.executable, "-c", closes_at_once]
    with (
        running("reference", command, log_dir=tmp_path) as server,
        pytest.raises(LoadFailed, match=r"ServerGone|ConnectionReset|BrokenPipe"),
    ):
        run_apart([_pump_job(server, frames, requests=1)])


def test_the_installed_client_brings_a_library_we_can_drive() -> None:
    assert load_library().rd_kafka_version_str()

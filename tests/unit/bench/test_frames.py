"""The prebuilt requests are what the protocol wants, and survive the way to a generator."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tidelog.bench.frames import (
    ACKS_ALL,
    HUNDRED_BYTES,
    KILOBYTE,
    SINGLE,
    Shape,
    api_versions_frame,
    fetch_frame,
    produce_frames,
    record_batch,
)
from tidelog.bench.jobs import PaceJob, job_from_json, job_to_json, read_frames, write_frames
from tidelog.model.settings import topic_settings
from tidelog.wire.batch import has_valid_crc, read_header
from tidelog.wire.records import decode_records
from tidelog.wire.requests import decode_body, decode_header

NOW_MS = 1_700_000_000_000


def _decoded(frame: bytes) -> object:
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    body = memoryview(bytearray(frame))[4:]
    header, position = decode_header(body)
    return decode_body(header, body, position)


@pytest.mark.parametrize("shape", [KILOBYTE, HUNDRED_BYTES, SINGLE])
def test_a_batch_is_valid_and_fits_the_largest_message_of_a_topic(shape: Shape) -> None:
    batch = record_batch(shape, NOW_MS)
    header = read_header(batch)
    assert header.size == len(batch) <= topic_settings().max_message_bytes
    assert header.records_count == shape.records
    assert has_valid_crc(batch, header)


def test_records_are_of_the_promised_size_and_differ() -> None:
    records = decode_records(record_batch(Shape(50, 10), NOW_MS), 10_000)
    values = [record.value for record in records]
    assert all(value is not None and len(value) == 50 for value in values)
    assert len(set(values)) == 10


def test_a_produce_frame_goes_to_each_partition_asked_for() -> None:
    batch = record_batch(SINGLE, NOW_MS)
    requests = [_decoded(f) for f in produce_frames("t", [0, 5], batch=batch, acks=ACKS_ALL)]
    named = [
        (topic.name, partition.index, bytes(partition.records), request.acks)  # type: ignore[attr-defined]
        for request in requests
        for topic in request.topic_data  # type: ignore[attr-defined]
        for partition in topic.partition_data
    ]
    assert named == [("t", 0, batch, ACKS_ALL), ("t", 5, batch, ACKS_ALL)]


def test_the_offset_of_a_fetch_can_be_written_where_it_is_said_to_lie() -> None:
    frame, position = fetch_frame("t", max_bytes=1 << 20)
    changed = bytearray(frame)
    struct.pack_into(">q", changed, position, 123_456)
    request = _decoded(bytes(changed))
    partition = request.topics[0].partitions[0]  # type: ignore[attr-defined]
    assert partition.fetch_offset == 123_456
    assert partition.partition_max_bytes == 1 << 20


def test_the_smallest_request_is_small() -> None:
    assert len(api_versions_frame()) < 32


def test_frames_survive_the_way_through_a_file(tmp_path: Path) -> None:
    frames = [api_versions_frame(), fetch_frame("t", max_bytes=1)[0]]
    path = tmp_path / "frames"
    write_frames(path, frames)
    assert read_frames(path) == frames


def test_a_job_survives_the_way_through_a_command_line() -> None:
    job = PaceJob(host="127.0.0.1", port=1, server_pid=2, seconds=0.5, frames_path="f", rate=5_000)
    assert job_from_json(job_to_json(job)) == job

"""Walking over records, against our own decoder and kafka-python's: whoever says yes, all do."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from tidelog.log.record_spans import record_spans
from tidelog.wire.batch import HEADER_BYTES, BatchHeader, read_header, seal, write_header
from tidelog.wire.compression import Compression, decompress
from tidelog.wire.errors import DecodeError
from tidelog.wire.record_walk import walk_records
from tidelog.wire.records import Record, decode_records, encode_batch
from tidelog.wire.varints import read_varint

ROOM = 1_000_000

blobs = st.none() | st.binary(max_size=60) | st.binary(min_size=120, max_size=140)
records = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.integers(0, 2**45),
    key=blobs,
    value=blobs,
    headers=st.lists(st.tuples(st.text(max_size=10), blobs), max_size=3),
)
several = st.lists(records, min_size=1, max_size=6)
thorough = settings(max_examples=300, deadline=None)


def is_sound(batch: bytearray, *, most: int | None = None) -> bool:
    header = read_header(batch)
    try:
        body = bytes(decompress(memoryview(batch)[HEADER_BYTES:], header.compression, ROOM))
        count = header.records_count
        walk_records(body, body_bytes=len(body), count=count, most=count if most is None else most)
    except DecodeError:
        return False
    return True


def decoded_here(batch: bytearray) -> bool:
    """Whether our decoder finds the records the header tells of, numbered as a producer must."""
    try:
        found = decode_records(batch, ROOM)
    except DecodeError:
        return False
    return [record.offset for record in found] == list(range(len(found)))


def decoded_by_kafka_python(batch: bytearray) -> list[tuple[int, Any, Any]]:
    theirs = MemoryRecords(bytes(batch)).next_batch()
    assert theirs is not None
    return [(record.offset, record.key, record.value) for record in theirs]


def has_odd_attributes(batch: bytearray) -> bool:
    """A record's attributes are a byte that nobody uses; kafka-python takes it for a varint, and
    reads something else where its highest bit is set."""
    body = bytes(batch[HEADER_BYTES:])
    starts = [start for start, *_ in record_spans(body, numbered(batch))]
    return any(body[read_varint(body, start)[1]] > 0x7F for start in starts)


def numbered(batch: bytearray) -> BatchHeader:
    header = read_header(batch)
    return header._replace(last_offset_delta=header.records_count - 1)


@given(some=several, compression=st.sampled_from(Compression))
@thorough
def test_what_is_encoded_is_sound(some: list[Record], compression: Compression) -> None:
    batch = encode_batch(some, base_offset=0, compression=compression)
    assert is_sound(batch)
    assert is_sound(batch, most=2)


@given(some=several)
@thorough
def test_the_latest_timestamp_is_that_of_the_header(some: list[Record]) -> None:
    batch = encode_batch(some, base_offset=0)
    header, body = read_header(batch), bytes(batch[HEADER_BYTES:])
    latest = walk_records(body, body_bytes=len(body), count=len(some), most=len(some))
    assert header.base_timestamp + latest == header.max_timestamp


@given(
    some=several,
    changes=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 3),
    more=st.integers(-1, 2),
)
@thorough
def test_a_changed_batch_is_refused_or_all_can_read_it(
    some: list[Record], changes: list[tuple[int, int]], cut: int, more: int
) -> None:
    batch = encode_batch(some, base_offset=0)
    body = batch[HEADER_BYTES:]
    for place, byte in changes:
        body[place % len(body)] = byte
    batch = batch[:HEADER_BYTES] + body[: len(body) - cut]
    header = read_header(batch)
    count = max(1, header.records_count + more)
    write_header(batch, header._replace(batch_length=len(batch) - 12, records_count=count))
    seal(batch)
    assert is_sound(batch) == decoded_here(batch)
    if is_sound(batch):
        assert is_sound(batch, most=1)
        ours = decode_records(batch, ROOM)
        names = [name for record in ours for name, _ in record.headers]
        # A name that is not UTF-8 is kept by Kafka, and kafka-python can't read it.
        if "\ufffd" not in "".join(names) and not has_odd_attributes(batch):
            plain = [(record.offset, record.key, record.value) for record in ours]
            assert decoded_by_kafka_python(batch) == plain


@given(noise=st.binary(min_size=1, max_size=60), count=st.integers(1, 8))
@thorough
def test_noise_is_refused_or_all_can_read_it(noise: bytes, count: int) -> None:
    batch = encode_batch([Record(0, 1)], base_offset=0)[:HEADER_BYTES] + noise
    header = read_header(batch)
    write_header(batch, header._replace(batch_length=len(batch) - 12, records_count=count))
    seal(batch)
    assert is_sound(batch) == decoded_here(batch)

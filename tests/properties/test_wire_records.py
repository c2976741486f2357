"""Batches opened and made, against aiokafka's and kafka-python's record codecs."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from tidelog.wire.batch import read_header, seal
from tidelog.wire.compression import Compression
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Record, decode_records, encode_batch

ROOM = 10_000_000

blobs = st.none() | st.binary(max_size=100) | st.binary(min_size=120, max_size=140)
records = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.integers(0, 2**45),
    key=blobs,
    value=blobs,
    headers=st.lists(st.tuples(st.text(max_size=10), blobs), max_size=3),
)
several = st.lists(records, min_size=1, max_size=6)
compressions = st.sampled_from(Compression)
thorough = settings(max_examples=150, deadline=None)

Plain = tuple[int, int, bytes | None, bytes | None, list[Any]]


def _plain(batch_records: Any) -> list[Plain]:
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch_records]


def _numbered(some: list[Record], base_offset: int) -> list[Record]:
    return [record._replace(offset=base_offset + n) for n, record in enumerate(some)]


@given(some=several, compression=compressions, base_offset=st.integers(0, 2**40))
@thorough
def test_what_we_encode_we_decode(
    some: list[Record], compression: Compression, base_offset: int
) -> None:
    batch = encode_batch(some, base_offset=base_offset, compression=compression)
    assert _plain(decode_records(batch, ROOM)) == _plain(_numbered(some, base_offset))


@given(some=several, compression=compressions)
@thorough
def test_aiokafka_reads_what_we_encode(some: list[Record], compression: Compression) -> None:
    batch = encode_batch(some, base_offset=9, compression=compression)
    theirs = DefaultRecordBatch(bytes(batch))
    assert theirs.validate_crc()
    assert _plain(theirs) == _plain(_numbered(some, 9))


@given(some=several, compression=compressions)
@thorough
def test_we_read_what_aiokafka_encodes(some: list[Record], compression: Compression) -> None:
    builder = DefaultRecordBatchBuilder(2, int(compression), 0, -1, -1, -1, ROOM)
    for n, record in enumerate(some):
        builder.append(n, record.timestamp, record.key, record.value, list(record.headers))
    assert _plain(decode_records(bytes(builder.build()), ROOM)) == _plain(_numbered(some, 0))


@given(some=several, compression=st.sampled_from([Compression.NONE, Compression.GZIP]))
@thorough
def test_kafka_python_reads_what_we_encode(some: list[Record], compression: Compression) -> None:
    batch = MemoryRecords(bytes(encode_batch(some, base_offset=3, compression=compression)))
    theirs = batch.next_batch()
    assert theirs is not None
    assert theirs.validate_crc()
    assert _plain(theirs) == _plain(_numbered(some, 3))


@given(
    some=several,
    compression=compressions,
    place=st.integers(0, 10_000),
    byte=st.integers(1, 255),
    has_new_seal=st.booleans(),
)
@thorough
def test_damage_is_a_decode_error_or_other_records(
    some: list[Record],
    compression: Compression,
    place: int,
    byte: int,
    has_new_seal: bool,
) -> None:
    batch = encode_batch(some, base_offset=0, compression=compression)
    at = place % len(batch)
    batch[at] ^= byte
    if has_new_seal:
        seal(batch)
    try:
        decode_records(batch, ROOM)
    except DecodeError:
        return
    lies_outside_the_crc = at < 8 or 12 <= at < 16
    assert has_new_seal or lies_outside_the_crc


@given(noise=st.binary(max_size=200), count=st.integers(-1, 30))
@thorough
def test_noise_in_place_of_records_is_a_decode_error_or_records(noise: bytes, count: int) -> None:
    batch = encode_batch([Record(0, 1)], base_offset=0)[:61] + noise
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    seal(batch)
    try:
        assert len(decode_records(batch, ROOM)) == count
    except DecodeError:
        pass


@pytest.mark.parametrize("compression", Compression)
def test_records_may_keep_their_offsets_with_gaps(compression: Compression) -> None:
    kept = [Record(10, 5, b"a"), Record(13, 6, b"b"), Record(200, 4, b"c")]
    batch = encode_batch(kept, compression=compression)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (10, 200, 6)
    assert decode_records(batch, ROOM) == kept

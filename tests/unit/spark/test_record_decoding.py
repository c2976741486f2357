"""The compiled decoder against the plain one of `tidelog.wire`, and against lying bytes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.spark import record_decoding
from tidelog.spark.arrow_columns import arrow_schema
from tidelog.spark.columns import all_columns
from tidelog.spark.errors import CorruptData
from tidelog.spark.record_decoding import Aborted, Target, decode, scan
from tidelog.wire.batch import TIMESTAMP_TYPE_BIT, read_header, seal, write_header
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, encode_batch

ALL = all_columns(include_headers=True)
EVERYTHING = Target("orders", 3, 0, 1 << 62, ALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

blobs = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3)


@st.composite
def batches(draw: st.DrawFn) -> list[bytearray]:
    """Batches of records whose offsets have gaps, in any codec."""
    offset, made = draw(st.integers(0, 1 << 40)), []
    for _ in range(draw(st.integers(1, 4))):
        records = []
        for _ in range(draw(st.integers(1, 6))):
            offset += draw(st.integers(1, 300))
            timestamp = draw(st.integers(0, 1 << 42))
            records.append(Record(offset, timestamp, draw(blobs), draw(blobs), draw(headers)))
        codec = draw(st.sampled_from(Compression))
        made.append(encode_batch(records, compression=codec))
    return made


def rows_of(
    data: bytes | bytearray,
    target: Target = EVERYTHING,
    aborted: Sequence[Aborted] = (),
    *,
    cap: int = 1 << 20,
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    scanned = scan(memoryview(data), target)
    for batch in decode(scanned, target, max_decompressed_bytes=cap, aborted=aborted):
        batch.validate(full=True)
        assert batch.schema == arrow_schema(target.columns)
        rows += batch.to_pylist()
    return rows


def expected(records: Sequence[Record]) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "timestamp": _EPOCH + timedelta(milliseconds=record.timestamp),
            "timestampType": 0,
            "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        }
        for record in records
    ]


@settings(deadline=None)
@given(batches(), st.integers(0, 30), st.integers(0, 30))
def test_rows_are_those_of_the_plain_decoder(
    made: list[bytearray], skipped: int, dropped: int
) -> None:
    from tidelog.wire.records import decode_records

    records = [record for batch in made for record in decode_records(batch, 1 << 20)]
    data = b"".join(made)
    assert rows_of(data) == expected(records)
    start = records[min(skipped, len(records) - 1)].offset
    end = records[max(0, len(records) - 1 - dropped)].offset
    part = Target("orders", 3, start, end, ALL)
    assert rows_of(data, part) == expected([r for r in records if start <= r.offset < end])


def test_columns_come_alone_and_in_the_order_asked_for() -> None:
    batch = encode_batch([Record(5, 1000, b"k", b"v")])
    one = Target("orders", 3, 0, 9, ("value",))
    assert rows_of(batch, one) == [{"value": b"v"}]
    two = Target("orders", 3, 0, 9, ("offset", "key"))
    assert rows_of(batch, two) == [{"offset": 5, "key": b"k"}]


def test_the_brokers_time_is_that_of_every_record_of_the_batch() -> None:
    batch = encode_batch([Record(0, 1000, None, b"a"), Record(1, 2000, None, b"b")])
    header = read_header(batch)
    write_header(batch, header._replace(attributes=TIMESTAMP_TYPE_BIT, max_timestamp=777_000))
    seal(batch)
    rows = rows_of(batch)
    assert {row["timestamp"] for row in rows} == {_EPOCH + timedelta(seconds=777)}
    assert {row["timestampType"] for row in rows} == {1}


def test_many_batches_become_arrow_batches_of_bounded_size() -> None:
    value = bytes(1 << 20)
    data = b"".join(encode_batch([Record(i, 0, None, value)]) for i in range(20))
    scanned = scan(memoryview(data), EVERYTHING)
    made = list(decode(scanned, EVERYTHING, max_decompressed_bytes=1 << 24))
    assert len(made) > 1
    assert all(batch.nbytes <= record_decoding.GROUP_BYTES + (1 << 21) for batch in made)
    assert sum(batch.num_rows for batch in made) == 20


def test_a_batch_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    first = encode_batch([Record(0, 0, None, b"a")])
    second = encode_batch([Record(1, 0, None, b"b")])
    scanned = scan(memoryview(first + second[:-1]), EVERYTHING)
    assert scanned.next_offset == 1
    assert [row["value"] for row in rows_of(first + second[:-1])] == [b"a"]


def transaction(offset: int, producer_id: int) -> bytearray:
    return encode_batch(
        [Record(offset, 0, None, b"%d" % offset)], producer_id=producer_id, is_transactional=True
    )


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytearray:
    key = (0).to_bytes(2, "big") + int(is_commit).to_bytes(2, "big")
    return encode_batch(
        [Record(offset, 0, key, bytes(6))],
        producer_id=producer_id,
        is_transactional=True,
        is_control=True,
    )


def test_markers_are_no_rows_and_aborted_transactions_are_left_out() -> None:
    data = b"".join(
        [
            transaction(0, 7),
            transaction(1, 8),
            transaction(2, 7),
            marker(3, 7, is_commit=False),
            transaction(4, 7),
            marker(5, 8, is_commit=True),
            marker(6, 7, is_commit=True),
        ]
    )
    assert [row["offset"] for row in rows_of(data)] == [0, 1, 2, 4]
    assert [row["offset"] for row in rows_of(data, aborted=[Aborted(7, 0)])] == [1, 4]


def test_a_checksum_that_fails_is_told_with_the_place() -> None:
    batch = encode_batch([Record(41, 0, None, b"value")])
    batch[-2] ^= 1
    with pytest.raises(CorruptData, match=r"orders-3 at offset 41 .* checksum"):
        rows_of(batch)


def test_another_format_than_the_present_is_refused() -> None:
    batch = encode_batch([Record(0, 0, None, b"value")])
    batch[16] = 1
    with pytest.raises(CorruptData, match="magic 1"):
        rows_of(batch)


@pytest.mark.parametrize("codec", [each for each in Compression if each])
def test_a_batch_that_decompresses_to_more_than_the_cap_is_refused(codec: Compression) -> None:
    batch = encode_batch([Record(0, 0, None, bytes(200_000))], compression=codec)
    assert len(rows_of(batch, cap=300_000)) == 1
    with pytest.raises(CorruptData):
        rows_of(batch, cap=100_000)


def test_a_count_that_the_bytes_cannot_hold_is_refused() -> None:
    batch = encode_batch([Record(0, 0, None, b"value")])
    write_header(batch, read_header(batch)._replace(records_count=2_000_000_000))
    seal(batch)
    with pytest.raises(CorruptData, match="claims 2000000000 records"):
        rows_of(batch)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_lying_records_are_refused_and_never_read_out_of_bounds(data: st.DataObject) -> None:
    """Damage anywhere behind the header, with a checksum that is right."""
    records = [Record(i, 5 * i, b"key", b"value", [("h", b"x")]) for i in range(4)]
    batch = encode_batch(records)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    seal(batch)
    try:
        rows = rows_of(batch)
    except CorruptData:
        return
    assert len(rows) <= 4


def test_a_header_key_that_is_no_text_is_shown_with_replacements() -> None:
    batch = encode_batch([Record(0, 0, None, b"v", [("ab", b"x")])])
    batch[batch.index(b"ab")] = 0xFF
    seal(batch)
    assert rows_of(batch)[0]["headers"] == [{"key": "\ufffdb", "value": b"x"}]

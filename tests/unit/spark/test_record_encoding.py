"""The compiled encoder, read back by the plain decoder of `tidelog.wire`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from tidelog.spark.arrow_columns import arrow_schema
from tidelog.spark.errors import PipelineError
from tidelog.spark.record_encoding import (
    RUN_WITHOUT_KEY,
    Identity,
    by_topic,
    choose_partitions,
    cut,
    encode,
    rows_of,
)
from tidelog.wire.batch import read_header
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, decode_records

NOW_MS = 1_700_000_000_000
WRITER = Identity(producer_id=9, producer_epoch=2, base_sequence=5)
COLUMNS = ("key", "value", "topic", "partition", "timestamp", "headers")

blobs = st.none() | st.binary(max_size=200)
rows = st.fixed_dictionaries(
    {
        "key": blobs,
        "value": blobs,
        "topic": st.just("orders"),
        "partition": st.none() | st.integers(0, 3),
        "timestamp": st.none() | st.integers(0, 1 << 50),
        "headers": st.none()
        | st.lists(st.fixed_dictionaries({"key": st.text(max_size=4), "value": blobs}), max_size=3),
    }
)


def arrow(made: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(made, schema=arrow_schema(COLUMNS))


def encoded(
    batch: pa.RecordBatch, *, max_bytes: int = 1 << 20, codec: Compression = Compression.NONE
) -> list[tuple[int, bytearray]]:
    made = rows_of(batch, now_ms=NOW_MS)
    chosen = choose_partitions(made, count=4, turn=0, topic="orders")
    return [
        (number, encode(made, order, room, identity=WRITER, compression=codec))
        for number, order, room in cut(made, chosen, max_bytes=max_bytes)
    ]


def record(row: dict[str, Any], offset: int) -> Record:
    micros = row["timestamp"]
    timestamp = NOW_MS if micros is None else micros // 1000
    headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
    return Record(offset, timestamp, row["key"], row["value"], headers or ())


@settings(deadline=None)
@given(st.lists(rows, min_size=1, max_size=20), st.sampled_from(Compression), st.integers(0, 5))
def test_records_are_the_rows_in_their_order(
    made: list[dict[str, Any]], codec: Compression, skipped: int
) -> None:
    skipped = min(skipped, len(made) - 1)
    for each in made:
        each["partition"] = 1
    batch = arrow(made).slice(skipped)
    ((number, data),) = encoded(batch, codec=codec)
    assert number == 1
    records = decode_records(data, 1 << 20)
    assert records == [record(row, i) for i, row in enumerate(made[skipped:])]
    header = read_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == WRITER
    assert header.max_timestamp == max(each.timestamp for each in records)


@settings(deadline=None)
@given(st.lists(rows, min_size=1, max_size=30), st.integers(60, 1000))
def test_every_row_lands_in_one_batch_of_its_partition_and_batches_are_bounded(
    made: list[dict[str, Any]], max_bytes: int
) -> None:
    batch = arrow(made)
    chosen = choose_partitions(rows_of(batch, now_ms=NOW_MS), count=4, turn=0, topic="orders")
    assert all(row["partition"] in (None, at) for row, at in zip(made, chosen, strict=True))
    found: dict[int, list[bytes | None]] = {}
    for number, data in encoded(batch, max_bytes=max_bytes):
        records = decode_records(data, 1 << 20)
        assert len(data) <= max_bytes + 61 or len(records) == 1
        found.setdefault(number, []).extend(each.value for each in records)
    wanted: dict[int, list[bytes | None]] = {}
    for row, number in zip(made, chosen.tolist(), strict=True):
        wanted.setdefault(number, []).append(row["value"])
    assert found == wanted


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1), st.integers(1, 100))
def test_a_key_goes_where_kafkas_own_clients_send_it(keys: list[bytes], count: int) -> None:
    made = rows_of(pa.record_batch({"key": keys, "value": keys}), now_ms=NOW_MS)
    chosen = choose_partitions(made, count=count, turn=0, topic="orders")
    assert chosen.tolist() == [(murmur2(key) & 0x7FFFFFFF) % count for key in keys]


def test_rows_without_a_key_take_turns_in_runs() -> None:
    count = 3 * RUN_WITHOUT_KEY
    made = rows_of(pa.record_batch({"value": [b"v"] * count}), now_ms=NOW_MS)
    chosen = choose_partitions(made, count=4, turn=2, topic="orders")
    assert np.bincount(chosen, minlength=4).tolist() == [RUN_WITHOUT_KEY, 0, *[RUN_WITHOUT_KEY] * 2]


def test_text_is_written_as_its_bytes() -> None:
    ((_, data),) = encoded(pa.record_batch({"key": ["ü"], "value": ["é"], "partition": [0]}))
    (found,) = decode_records(data, 1 << 20)
    assert (found.key, found.value) == ("ü".encode(), "é".encode())


def test_a_partition_that_is_not_there_is_named() -> None:
    for number in (4, -2):
        batch = pa.record_batch({"value": [b"v"], "partition": pa.array([number], pa.int32())})
        made = rows_of(batch, now_ms=NOW_MS)
        with pytest.raises(PipelineError, match=f"'orders' has no partition {number}: it has 4"):
            choose_partitions(made, count=4, turn=0, topic="orders")


def test_rows_are_parted_by_topic_and_a_missing_one_is_an_error() -> None:
    batch = pa.record_batch({"topic": ["a", "b", "a"], "value": [b"1", b"2", b"3"]})
    parts = {name: part.column("value").to_pylist() for name, part in by_topic(batch, None)}
    assert parts == {"a": [b"1", b"3"], "b": [b"2"]}
    assert [name for name, _ in by_topic(batch, "c")] == ["c"]
    with pytest.raises(PipelineError, match="a row has no topic"):
        list(by_topic(pa.record_batch({"topic": ["a", None], "value": [b"1", b"2"]}), None))

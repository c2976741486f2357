"""What the compaction line expects to be left of a log, and the batches it writes."""

from __future__ import annotations

from tidelog.bench.compaction import BATCH_RECORDS, KEYS, SEGMENT_BYTES, Filling
from tidelog.bench.frames import key_of, keyed_batch
from tidelog.wire.records import decode_records


def test_the_segment_in_use_is_not_counted() -> None:
    three_to_a_segment = SEGMENT_BYTES // 3
    assert Filling(7, three_to_a_segment).closed_batches == 6
    assert Filling(6, three_to_a_segment).closed_batches == 3
    assert Filling(3, three_to_a_segment).closed_bytes == 0


def test_the_last_record_of_each_key_and_the_segment_in_use_are_kept() -> None:
    filling = Filling(batches=1_001, batch_bytes=SEGMENT_BYTES // 10)
    kept = filling.kept_offsets()
    assert kept.stop == 1_001 * BATCH_RECORDS
    assert len(kept) == KEYS + BATCH_RECORDS


def test_a_log_with_fewer_records_than_keys_is_kept_whole() -> None:
    assert Filling(batches=2, batch_bytes=SEGMENT_BYTES).kept_offsets().start == 0


def test_a_keyed_batch_has_a_record_for_each_key() -> None:
    batch = keyed_batch(range(5, 8), value_bytes=30, timestamp_ms=1)
    records = decode_records(batch, 10_000)
    assert [record.key for record in records] == [key_of(5), key_of(6), key_of(7)]
    assert {len(record.value or b"") for record in records} == {30}

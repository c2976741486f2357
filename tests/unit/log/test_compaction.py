"""What compaction keeps, drops and rewrites, batch by batch."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import pytest
from tests.support.stamping import stamp
from tests.unit.log.cleaning import keyed

from tidelog.log.admission import DELETE_HORIZON_BIT
from tidelog.log.compaction import (
    ENTRY_BYTES,
    Compacted,
    Gap,
    LatestOffsets,
    Pass,
    compact_batch,
    filler,
    is_filler,
    note_keys,
)
from tidelog.log.record_spans import body_of, record_spans
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.batch import (
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    has_valid_crc,
    read_header,
    seal,
    write_header,
)
from tidelog.wire.compression import Compression
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Record, decode_records, encode_batch

NOW_MS = 50_000
RETENTION_MS = 1000


@dataclass
class Producers:
    """Remembers the batches that it was told to."""

    remembered: list[tuple[int, int]] = field(default_factory=list)

    def remembers(self, producer_id: int, base_offset: int) -> bool:
        return (producer_id, base_offset) in self.remembered


def a_pass(*, now_ms: int = NOW_MS, first_dirty: int = 0, mapped_to: int = 1000) -> Pass:
    return Pass(
        LatestOffsets(1 << 20),
        Producers(),
        first_dirty=first_dirty,
        mapped_to=mapped_to,
        now_ms=now_ms,
        latest_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
    )


def at(offset: int, batch: memoryview) -> memoryview:
    stamp(batch, Offset(offset), LeaderEpoch(3))
    return batch


def result(work: Generator[int, None, Compacted]) -> Compacted:
    while True:
        try:
            assert next(work) >= 0
        except StopIteration as end:
            found: Compacted = end.value
            return found


def compact(work: Pass, batch: memoryview | bytearray) -> Compacted:
    return result(compact_batch(work, memoryview(batch), read_header(batch)))


def note(work: Pass, *batches: memoryview) -> None:
    for batch in batches:
        list(note_keys(work.latest, batch, read_header(batch)))


def written(compacted: Compacted) -> tuple[BatchHeader, list[Record]]:
    batch = compacted.batch
    assert batch is not None
    header = read_header(batch)
    assert has_valid_crc(batch, header)
    return header, decode_records(batch, 1 << 20)


def test_a_record_below_its_keys_latest_is_dropped() -> None:
    work = a_pass()
    batch = at(10, keyed([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]))
    note(work, batch)
    header, records = written(compact(work, batch))
    assert [(one.offset, one.key, one.value) for one in records] == [
        (11, b"b", b"2"),
        (12, b"a", b"3"),
    ]
    assert (header.base_offset, header.last_offset_delta, header.leader_epoch) == (10, 2, 3)
    assert work.records_dropped == 1


def test_a_batch_that_loses_nothing_stays_as_it_is() -> None:
    work = a_pass()
    batch = at(10, keyed([(b"a", b"1"), (b"b", b"2")]))
    note(work, batch)
    compacted = compact(work, batch)
    assert compacted.is_same
    assert compacted.batch == batch


@pytest.mark.parametrize("codec", Compression)
def test_what_stays_keeps_its_timestamps_headers_producer_and_codec(codec: Compression) -> None:
    records = [
        Record(0, 5000, b"a", b"old"),
        Record(1, 9000, b"a", b"older timestamps follow"),
        Record(2, 3000, b"b", b"2" * 300, [("name", b"x"), ("null", None)]),
        Record(3, 4000, b"c" * 200, b""),
        Record(4, 8000, b"a", b"new"),
    ]
    batch = encode_batch(
        records,
        base_offset=0,
        compression=codec,
        producer_id=7,
        producer_epoch=2,
        base_sequence=40,
    )
    work = a_pass()
    note(work, at(10, memoryview(batch)))
    before = read_header(batch)
    header, kept = written(compact(work, batch))
    assert kept == [one._replace(offset=one.offset + 10) for one in records[2:]]
    assert header.max_timestamp == 8000, "of what is left"
    assert header.compression == codec
    unchanged = ("producer_id", "producer_epoch", "base_sequence", "last_offset_delta")
    for name in unchanged:
        assert getattr(header, name) == getattr(before, name)


def test_records_without_a_key_are_dropped_and_counted() -> None:
    work = a_pass()
    header, records = written(compact(work, keyed([(None, b"1"), (b"b", b"2")])))
    assert [one.key for one in records] == [b"b"]
    assert work.keyless_dropped == 1
    assert header.records_count == 1


def test_an_empty_key_is_a_key() -> None:
    work = a_pass()
    batch = keyed([(b"", b"1"), (b"", b"2")])
    note(work, batch)
    _, records = written(compact(work, batch))
    assert [one.value for one in records] == [b"2"]


def test_a_batch_dated_by_the_log_keeps_its_date() -> None:
    batch = keyed([(b"a", b"1"), (b"a", None)])
    dated = read_header(batch)._replace(attributes=TIMESTAMP_TYPE_BIT, max_timestamp=7777)
    write_header(batch, dated)
    seal(batch)
    work = a_pass()
    note(work, batch)
    header, records = written(compact(work, batch))
    assert [one.timestamp for one in records] == [7777]
    assert header.attributes == TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT


# --- tombstones -------------------------------------------------------------------------------


def tombstones() -> memoryview:
    return at(10, keyed([(b"a", None), (b"b", b"2")], timestamps=[400, 9000]))


def test_a_tombstone_gets_a_horizon_when_it_is_first_met() -> None:
    work = a_pass()
    note(work, tombstones())
    header, records = written(compact(work, tombstones()))
    assert header.attributes & DELETE_HORIZON_BIT
    assert header.base_timestamp == NOW_MS + RETENTION_MS
    assert [(one.offset, one.timestamp, one.value) for one in records] == [
        (10, 400, None),
        (11, 9000, b"2"),
    ]
    assert header.max_timestamp == 9000


def test_a_tombstone_stays_until_its_horizon_and_goes_then() -> None:
    marked = compact(a_pass(), tombstones()).batch
    assert marked is not None
    before = compact(a_pass(now_ms=NOW_MS + RETENTION_MS - 1), marked)
    assert before.is_same
    _, records = written(compact(a_pass(now_ms=NOW_MS + RETENTION_MS), marked))
    assert [one.key for one in records] == [b"b"]


def test_a_superseded_tombstone_goes_at_once() -> None:
    work = a_pass()
    note(work, tombstones(), at(20, keyed([(b"a", b"back again")])))
    header, records = written(compact(work, tombstones()))
    assert [one.key for one in records] == [b"b"]
    assert not header.attributes & DELETE_HORIZON_BIT


@pytest.mark.parametrize(("first_dirty", "mapped_to"), [(11, 1000), (0, 10)])
def test_a_tombstone_outside_of_what_is_mapped_gets_no_horizon(
    first_dirty: int, mapped_to: int
) -> None:
    """Older records of its key would outlive it."""
    work = a_pass(first_dirty=first_dirty, mapped_to=mapped_to)
    assert compact(work, tombstones()).is_same


def test_behind_what_could_not_be_looked_into_tombstones_stay() -> None:
    marked = compact(a_pass(), tombstones()).batch
    assert marked is not None
    work = a_pass(now_ms=NOW_MS + 10 * RETENTION_MS)
    work.is_blind = True
    assert compact(work, marked).is_same
    assert compact(work, tombstones()).is_same


def test_without_the_safeguard_tombstones_go_at_once() -> None:
    work = a_pass()
    work.keeps_tombstones = False
    _, records = written(compact(work, tombstones()))
    assert [one.key for one in records] == [b"b"]


# --- what stays closed ------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [CONTROL_BIT | TRANSACTIONAL_BIT, TRANSACTIONAL_BIT])
def test_what_belongs_to_a_transaction_stays_and_counts_for_nothing(bits: int) -> None:
    batch = at(10, keyed([(b"a", b"1"), (b"a", b"2")]))
    write_header(batch, read_header(batch)._replace(attributes=bits))
    seal(batch)
    work = a_pass()
    note(work, batch)
    assert len(work.latest) == 0
    assert compact(work, batch).is_same
    assert work.is_blind


def test_a_batch_that_can_not_be_opened_stays_and_is_reported() -> None:
    batch = at(10, keyed([(b"a", b"1"), (b"a", b"2")]))
    write_header(batch, read_header(batch)._replace(attributes=Compression.ZSTD))
    seal(batch)
    work = a_pass()
    note(work, batch)
    assert compact(work, batch).is_same
    assert work.unopened == [10]
    assert work.is_blind


def test_a_batch_with_senseless_offsets_is_not_believed() -> None:
    batch = at(10, keyed([(b"a", b"1"), (b"b", b"2")]))
    write_header(batch, read_header(batch)._replace(last_offset_delta=0))
    seal(batch)
    work = a_pass()
    assert compact(work, batch).is_same
    assert work.unopened == [10]


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_cut_body_is_malformed(cut: int) -> None:
    batch = keyed([(b"a", b"1"), (b"bb", b"2")])
    header = read_header(batch)
    body = body_of(batch, header)
    with pytest.raises(DecodeError):
        list(record_spans(body[: len(body) - cut], header))
    with pytest.raises(DecodeError):
        list(record_spans(body + b"\0" * cut, header))


# --- batches without records ------------------------------------------------------------------


def test_an_emptied_batch_becomes_a_filler() -> None:
    work = a_pass()
    batch = at(10, keyed([(b"a", b"1"), (b"a", b"2")]))
    note(work, batch, at(20, keyed([(b"a", b"3")])))
    compacted = compact(work, batch)
    assert compacted.batch is None
    assert not compacted.is_same


def test_an_emptied_batch_that_its_producer_may_repeat_keeps_its_sequence() -> None:
    work = a_pass()
    work.producers = Producers([(7, 10)])
    producer = (7, 2, 40)
    batch = at(10, keyed([(b"a", b"1"), (b"a", None)], producer=producer))
    note(work, batch, at(20, keyed([(b"a", b"3")])))
    compacted = compact(work, batch)
    header, records = written(compacted)
    assert records == []
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert (header.base_offset, header.last_offset_delta, header.last_sequence) == (10, 1, 41)
    assert header.compression == 0
    assert compacted.batch is not None
    assert compact(work, compacted.batch).is_same
    assert compact(a_pass(), compacted.batch).batch is None, "the producer has moved on"


def test_neighbouring_fillers_are_merged_within_an_epoch() -> None:
    gap = Gap()
    for base in (10, 15):
        header = read_header(filler(base, base + 5, 3))
        assert is_filler(header)
        assert gap.takes(header) == (base > 10)
        gap.add(header)
    assert not gap.takes(read_header(filler(20, 25, 4)))
    batch = gap.close()
    header = read_header(batch)
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (10, 20, 3)
    assert has_valid_crc(batch, header)
    assert decode_records(batch, 10) == []
    assert not gap.is_open


def test_a_filler_is_no_longer_than_its_length_can_say() -> None:
    gap = Gap()
    gap.add(read_header(filler(0, 2**31 - 5, 0)))
    assert gap.takes(read_header(filler(2**31 - 5, 2**31 - 1, 0)))
    assert not gap.takes(read_header(filler(2**31 - 5, 2**31, 0)))


# --- keys in bounded memory -------------------------------------------------------------------


def test_long_keys_are_told_apart_and_do_not_meet_short_ones() -> None:
    latest = LatestOffsets(1 << 20)
    keys = [b"", b"a", b"a" * 15, b"a" * 16, b"a" * 17, b"b" * 1000]
    for offset, key in enumerate(keys):
        latest.note(key, offset)
    assert [latest.of(key) for key in keys] == list(range(len(keys)))
    assert latest.of(b"unknown") == -1


def test_the_number_of_keys_is_limited_but_for_a_first_batch() -> None:
    latest = LatestOffsets(ENTRY_BYTES * 10)
    assert latest.limit == 10
    assert latest.has_room_for(1000)
    latest.note(b"a", 1)
    assert latest.has_room_for(9)
    assert not latest.has_room_for(10)

"""What a topic's leader looks at within a batch, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.garbage_batches import DEEP_GARBAGE, GARBAGE, SOUND_BODY, batch_with, record
from tests.unit.log.cleaning import compacted, keyed, records_of
from tests.unit.log.logs import a_batch, append, open_log, settings

from tidelog.log.appended import Appended, RecordError
from tidelog.log.log import Log
from tidelog.log.record_checks import SAMPLED_BYTES, sample
from tidelog.model.errors import ErrorCode
from tidelog.model.limits import MAX_BATCH_HEADERS
from tidelog.model.settings import Value
from tidelog.sim.disk import SimDisk
from tidelog.wire.batch import has_valid_crc, iter_batches, read_header, seal, write_header
from tidelog.wire.compression import Compression, compress
from tidelog.wire.varints import append_varint

NOW_MS = 1_700_000_000_000


def a_log(disk: SimDisk, validation: str, **changes: Value) -> Log:
    return open_log(disk, config=settings(records_validation=validation, **changes))


def sent(log: Log, batch: bytes) -> Appended:
    return append(log, memoryview(bytearray(batch)), now_ms=NOW_MS)


def claiming_newest(time: int, *, count: int = 2) -> memoryview:
    """A batch whose header says that its newest record is of `time`, whatever they are."""
    batch = a_batch(count, timestamps=[NOW_MS - 7 * each for each in range(count)])
    write_header(batch, read_header(batch)._replace(max_timestamp=time))
    seal(batch)
    return batch


@pytest.mark.parametrize("validation", ["full", "sampled"])
@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_with_a_right_checksum_is_refused(
    sim_disk: SimDisk, kind: str, validation: str
) -> None:
    log = a_log(sim_disk, validation)
    answer = sent(log, GARBAGE[kind])
    assert answer.error is ErrorCode.INVALID_RECORD
    assert answer.message is not None
    assert answer.message.startswith("the batch can't be read: ")
    assert answer.record_errors == ()
    assert log.log_end_offset == 0


@pytest.mark.parametrize("kind", DEEP_GARBAGE)
def test_garbage_deep_in_a_batch_is_refused_by_the_full_look_only(
    sim_disk: SimDisk, kind: str
) -> None:
    log = a_log(sim_disk, "full")
    assert sent(log, DEEP_GARBAGE[kind]).error is ErrorCode.INVALID_RECORD
    log.configure(settings(records_validation="sampled"))
    assert sent(log, DEEP_GARBAGE[kind]).error is ErrorCode.NONE


@pytest.mark.parametrize("garbage", [GARBAGE, DEEP_GARBAGE])
def test_headers_only_means_that_anything_goes(
    sim_disk: SimDisk, garbage: Mapping[str, bytes]
) -> None:
    log = a_log(sim_disk, "header")
    assert {sent(log, batch).error for batch in garbage.values()} == {ErrorCode.NONE}


@pytest.mark.parametrize("validation", ["full", "sampled", "header"])
@pytest.mark.parametrize("codec", Compression)
def test_sound_batches_are_kept_as_they_come(
    sim_disk: SimDisk, codec: Compression, validation: str
) -> None:
    log = a_log(sim_disk, validation)
    pairs = [(b"key" if each % 2 else None, b"v" * each) for each in range(60)]
    for some in (pairs[:1], pairs[:8], pairs[:9], pairs):
        batch = keyed(some, compression=codec)
        assert append(log, batch).error is ErrorCode.NONE
    assert [record.value for record in records_of(log)][-60:] == [value for _, value in pairs]


def test_a_batch_that_is_refused_leaves_those_before_it_out(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, "sampled")
    refused = append(log, a_batch(), memoryview(bytearray(GARBAGE["zeros"])), now_ms=NOW_MS)
    assert refused.error is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 0


def test_a_bomb_is_refused_and_not_opened_whole(sim_disk: SimDisk) -> None:
    bomb = keyed([(b"a", bytes(65 * 1024 * 1024))], compression=Compression.ZSTD)
    answer = append(a_log(sim_disk, "full"), bomb)
    assert answer.error is ErrorCode.INVALID_RECORD
    assert "decompress to more than" in str(answer.message)


def with_headers(count: int, filler: bytes = b"\0\1") -> bytes:
    tail = bytearray(1)
    append_varint(tail, count)
    return record(tail=bytes(tail) + filler * count)


def test_a_sample_ends_after_64_kilobytes_however_few_the_records_are(sim_disk: SimDisk) -> None:
    what_a_walk_would_stumble_over = b"\xff"
    body = with_headers(SAMPLED_BYTES, what_a_walk_would_stumble_over)
    batch = memoryview(bytearray(batch_with(body, 1)))
    assert sample(batch, read_header(batch)) is None
    assert sent(a_log(sim_disk, "full"), bytes(batch)).error is ErrorCode.INVALID_RECORD


def test_a_small_request_can_not_make_the_node_walk_over_millions_of_headers(
    sim_disk: SimDisk,
) -> None:
    body = with_headers(MAX_BATCH_HEADERS + 1)
    bomb = batch_with(compress(body, Compression.ZSTD), 1, attributes=Compression.ZSTD)
    assert len(bomb) < 1000
    answer = sent(a_log(sim_disk, "full"), bomb)
    assert answer.error is ErrorCode.INVALID_RECORD
    assert "may have 1000000 (MAX_BATCH_HEADERS)" in str(answer.message)


# --- timestamps -------------------------------------------------------------------------------


@pytest.mark.parametrize("claimed", [NOW_MS - 1000, NOW_MS + 1000, -1])
def test_a_wrong_newest_timestamp_is_put_right(sim_disk: SimDisk, claimed: int) -> None:
    log = a_log(sim_disk, "sampled")
    assert append(log, claiming_newest(claimed), now_ms=NOW_MS).error is ErrorCode.NONE
    segment = log._segments[-1]
    ((header, batch),) = iter_batches(memoryview(segment.file.read(0, segment.size)))
    assert header.max_timestamp == NOW_MS
    assert has_valid_crc(batch, header)


def test_a_batch_that_was_not_walked_to_its_end_keeps_its_timestamp(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, "sampled")
    batch = claiming_newest(NOW_MS + 1000, count=9)
    assert append(log, batch, now_ms=NOW_MS).error is ErrorCode.NONE
    assert read_header(batch).max_timestamp == NOW_MS + 1000


def test_a_timestamp_too_far_ahead_can_not_be_hidden(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, "sampled", message_timestamp_after_max_ms=5)
    batch = a_batch(timestamps=[NOW_MS + 6])
    write_header(batch, read_header(batch)._replace(max_timestamp=NOW_MS))
    seal(batch)
    assert append(log, batch, now_ms=NOW_MS).error is ErrorCode.INVALID_TIMESTAMP


def test_timestamps_beyond_64_bits_are_refused(sim_disk: SimDisk) -> None:
    latest = 2**63 - 1
    log = a_log(sim_disk, "sampled", message_timestamp_after_max_ms=latest)
    a_millisecond_later = b"\x0c\0\x02\0\x01\0\0"
    batch = batch_with(a_millisecond_later, 1, base_timestamp=latest, max_timestamp=latest)
    assert sent(log, batch).error is ErrorCode.INVALID_TIMESTAMP


def test_a_log_that_dates_records_does_not_care_for_theirs(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, "full", message_timestamp_type="LogAppendTime")
    assert append(log, claiming_newest(5), now_ms=NOW_MS).error is ErrorCode.NONE
    assert {record.timestamp for record in records_of(log)} == {NOW_MS}


# --- compacted topics -------------------------------------------------------------------------


def test_each_record_without_a_key_is_named(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted())
    first = keyed([(b"a", b"1"), (b"b", b"2")])
    second = keyed([(None, b"1"), (b"c", b"2"), (None, b"3")])
    answer = append(log, first, second)
    assert answer.error is ErrorCode.INVALID_RECORD
    assert answer.message == (
        "2 records of the batch have no key, which a compacted topic needs, so none of the batch "
        "was appended"
    )
    said = "this record has no key, and the topic is compacted: the latest of each key is kept"
    assert answer.record_errors == (RecordError(2, said), RecordError(4, said))


@pytest.mark.parametrize("kind", [*GARBAGE, *DEEP_GARBAGE])
def test_a_compacted_topic_is_always_looked_at_in_full(sim_disk: SimDisk, kind: str) -> None:
    log = open_log(sim_disk, config=compacted(records_validation="header", segment_bytes=1 << 20))
    assert sent(log, (GARBAGE | DEEP_GARBAGE)[kind]).error is ErrorCode.INVALID_RECORD
    assert sent(log, batch_with(SOUND_BODY, 3)).error is ErrorCode.NONE

"""Topics that want batches otherwise than they come."""

from __future__ import annotations

import pytest
from tests.unit.log.cleaning import compacted, keyed, records_of
from tests.unit.log.logs import a_batch, append, flush, open_log, settings, together

from tidelog.log.admission import DELETE_HORIZON_BIT
from tidelog.log.log import Log
from tidelog.log.restyle import styling_of
from tidelog.model.errors import ErrorCode
from tidelog.model.settings import Value
from tidelog.sim.disk import SimDisk
from tidelog.wire.batch import (
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    has_valid_crc,
    iter_batches,
    read_header,
    seal,
    write_header,
)
from tidelog.wire.compression import Compression

NOW_MS = 100_000
HOUR_MS = 3_600_000


def a_log(disk: SimDisk, **changes: Value) -> Log:
    return open_log(disk, config=settings(**changes))


def stored(log: Log) -> list[BatchHeader]:
    """What lies in the file, each with a right checksum."""
    segment = log._segments[-1]
    batches = list(iter_batches(memoryview(segment.file.read(0, segment.size))))
    assert all(has_valid_crc(batch, header) for header, batch in batches)
    return [header for header, _ in batches]


def test_a_topic_that_looks_at_headers_only_pays_nothing() -> None:
    assert styling_of(settings(records_validation="header")) is None
    headers_only = settings(records_validation="header", message_timestamp_after_max_ms=5)
    assert styling_of(headers_only) is None


# --- timestamps -------------------------------------------------------------------------------


def test_the_log_dates_records_where_it_is_asked_to(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, message_timestamp_type="LogAppendTime")
    batch = together(a_batch(2, timestamps=[5, 9]), a_batch(timestamps=[NOW_MS * 9999]))
    assert append(log, batch, now_ms=NOW_MS).error is ErrorCode.NONE
    append(log, a_batch(), now_ms=NOW_MS + 7)
    assert log.dates_appends
    assert [header.attributes for header in stored(log)] == [TIMESTAMP_TYPE_BIT] * 3
    times = [record.timestamp for record in records_of(log)]
    assert times == [NOW_MS, NOW_MS, NOW_MS, NOW_MS + 7]
    found = log.offset_for_timestamp(NOW_MS + 1)
    assert found is not None
    assert found[:2] == (3, NOW_MS + 7)
    assert log.offset_for_timestamp(NOW_MS + 8) is None


def test_a_producer_may_not_claim_to_be_the_log(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, message_timestamp_type="LogAppendTime")
    batch = a_batch()
    write_header(batch, read_header(batch)._replace(attributes=TIMESTAMP_TYPE_BIT))
    seal(batch)
    assert append(log, batch).error is ErrorCode.INVALID_TIMESTAMP


def test_a_timestamp_too_far_ahead_is_refused(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    ahead = a_batch(timestamps=[NOW_MS, NOW_MS + HOUR_MS + 1])
    assert append(log, ahead, now_ms=NOW_MS).error is ErrorCode.INVALID_TIMESTAMP
    assert log.log_end_offset == 0
    just = a_batch(timestamps=[NOW_MS, NOW_MS + HOUR_MS])
    assert append(log, just, now_ms=NOW_MS).error is ErrorCode.NONE


def test_a_timestamp_too_long_ago_is_refused_where_it_is_asked_for(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, message_timestamp_before_max_ms=1000)
    old = a_batch(timestamps=[NOW_MS - 1001])
    assert append(log, old, now_ms=NOW_MS).error is ErrorCode.INVALID_TIMESTAMP
    for fine in (a_batch(timestamps=[NOW_MS - 1000]), a_batch(timestamps=[-1])):
        assert append(log, fine, now_ms=NOW_MS).error is ErrorCode.NONE


def test_a_log_that_dates_records_itself_accepts_any_timestamp(sim_disk: SimDisk) -> None:
    log = a_log(
        sim_disk,
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=1,
        message_timestamp_after_max_ms=1,
    )
    for time in (1, NOW_MS * 1000):
        assert append(log, a_batch(timestamps=[time]), now_ms=NOW_MS).error is ErrorCode.NONE


# --- compression ------------------------------------------------------------------------------

CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("sent", Compression)
def test_batches_of_another_codec_are_compressed_anew(
    sim_disk: SimDisk, name: str, sent: Compression
) -> None:
    log = a_log(sim_disk, compression_type=name)
    pairs = [(b"key %d" % number, b"value" * number) for number in range(9)]
    result = append(log, keyed(pairs, compression=sent, producer=(5, 1, 30)))
    assert (result.error, result.last_offset) == (ErrorCode.NONE, 8)
    (header,) = stored(log)
    assert header.compression == CODECS[name]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 30)
    assert [(record.key, record.value) for record in records_of(log)] == pairs
    flush(log)
    again = append(log, keyed(pairs, compression=sent, producer=(5, 1, 30)))
    assert again.is_duplicate


@pytest.mark.parametrize(("name", "fast", "small"), [("gzip", 1, 9), ("zstd", -50, 22)])
def test_a_topic_says_how_hard_its_batches_are_compressed(
    sim_disk: SimDisk, name: str, fast: int, small: int
) -> None:
    pairs = [
        (b"key %d" % number, b"%d squared is %d" % (number, number**2)) for number in range(99)
    ]
    log = a_log(sim_disk, compression_type=name)
    for level in (fast, small):
        levels: dict[str, Value] = {f"compression_{name}_level": level}
        log.configure(settings(compression_type=name, **levels))
        append(log, keyed(pairs))
    assert [(record.key, record.value) for record in records_of(log)] == pairs * 2
    at_fast, at_small = (header.batch_length for header in stored(log))
    assert at_small < at_fast


def test_several_batches_of_one_request_are_compressed_anew(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, compression_type="zstd")
    first = keyed([(b"a", b"1" * 100)], compression=Compression.ZSTD)
    second = keyed([(b"b", b"2" * 100)])
    assert append(log, first, second).last_offset == 1
    assert [record.value for record in records_of(log)] == [b"1" * 100, b"2" * 100]


def test_what_claims_to_be_compressed_and_is_not_is_refused(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, compression_type="zstd")
    batch = keyed([(b"a", b"1")])
    write_header(batch, read_header(batch)._replace(attributes=Compression.LZ4))
    seal(batch)
    assert append(log, batch).error is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 0


def test_a_batch_that_grows_beyond_the_limit_is_refused(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk, compression_type="uncompressed", max_message_bytes=500)
    small = keyed([(b"a", bytes(2000))], compression=Compression.ZSTD)
    assert append(log, small).error is ErrorCode.MESSAGE_TOO_LARGE
    log = a_log(sim_disk, compression_type="uncompressed", segment_bytes=1024)
    assert append(log, small).error is ErrorCode.RECORD_LIST_TOO_LARGE


# --- compacted topics -------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Compression)
def test_a_compacted_topic_refuses_records_without_a_key(
    sim_disk: SimDisk, codec: Compression
) -> None:
    log = open_log(sim_disk, config=compacted())
    fine = keyed([(b"a", b"1"), (b"", None)], compression=codec)
    assert append(log, fine).error is ErrorCode.NONE
    keyless = keyed([(b"a", b"1"), (None, b"2")], compression=codec)
    assert append(log, keyed([(b"b", b"1")]), keyless).error is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 2, "all or nothing"


def test_a_compacted_topic_refuses_offsets_that_do_not_fit(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk, config=compacted())
    batch = keyed([(b"a", b"1"), (b"b", b"2")])
    batch[read_header(batch).size - 6] = 0  # the second record's distance from the first
    seal(batch)
    assert append(log, batch).error is ErrorCode.INVALID_RECORD


def test_a_delete_horizon_is_not_the_producers_to_set(sim_disk: SimDisk) -> None:
    batch = keyed([(b"a", None)])
    write_header(batch, read_header(batch)._replace(attributes=DELETE_HORIZON_BIT))
    seal(batch)
    assert append(a_log(sim_disk), batch).error is ErrorCode.INVALID_RECORD


# --- new settings while in use ----------------------------------------------------------------


def test_new_settings_are_obeyed_by_the_next_append(sim_disk: SimDisk) -> None:
    log = a_log(sim_disk)
    append(log, keyed([(None, b"1" * 100)]))
    log.configure(compacted(compression_type="zstd", segment_bytes=1024, max_message_bytes=300))
    assert append(log, keyed([(None, b"1")])).error is ErrorCode.INVALID_RECORD
    assert append(log, keyed([(b"a", b"1" * 400)])).error is ErrorCode.MESSAGE_TOO_LARGE
    assert append(log, keyed([(b"a", b"1" * 100)])).error is ErrorCode.NONE
    assert [header.compression for header in stored(log)] == [0, Compression.ZSTD]
    log.configure(settings())
    assert append(log, keyed([(None, b"1" * 400)])).error is ErrorCode.NONE


def test_a_smaller_segment_size_closes_the_active_segment_at_the_next_append(
    sim_disk: SimDisk,
) -> None:
    log = a_log(sim_disk)
    for _ in range(10):
        append(log, a_batch(value=b"v" * 200))
    assert len(log._bases) == 1
    log.configure(settings(segment_bytes=1024, index_interval_bytes=0))
    for _ in range(10):
        append(log, a_batch(value=b"v" * 200))
    assert len(log._bases) > 2
    assert len(log._segments[1].indexes.index) >= 2
    log.validate()

"""Keyed records, and a log compacted as the node does it: slice by slice, flushing in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.unit.log.logs import flush, read, settings

from tidelog.log.cleaner import Cleaning
from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.model.ids import Offset
from tidelog.model.settings import TopicSettings, Value
from tidelog.wire.batch import BatchHeader, iter_batches
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, decode_records, encode_batch

Pair = tuple[bytes | None, bytes | None]

BUFFER_BYTES = 1 << 20
NOW_MS = 10_000


def compacted(**changes: Value) -> TopicSettings:
    defaults: dict[str, Value] = {
        "cleanup_policy": "compact",
        "segment_bytes": 1024,
        "min_cleanable_dirty_ratio": 0.01,
        "delete_retention_ms": 1000,
    }
    return settings(**{**defaults, **changes})


def keyed(
    pairs: Sequence[Pair],
    *,
    timestamps: Sequence[int] = (),
    compression: Compression = Compression.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> memoryview:
    """A batch of such records; `producer` is (id, epoch, first sequence)."""
    times = timestamps or [1000 + number for number in range(len(pairs))]
    records = [
        Record(number, time, key, value)
        for number, (time, (key, value)) in enumerate(zip(times, pairs, strict=True))
    ]
    pid, epoch, sequence = producer
    return memoryview(
        encode_batch(
            records,
            base_offset=0,
            compression=compression,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


def clean(
    log: Log,
    *,
    now_ms: int = NOW_MS,
    limit: int | None = None,
    buffer_bytes: int = BUFFER_BYTES,
    budget_bytes: int = 500,
    between: Callable[[], None] = lambda: None,
) -> Cleaning:
    """One whole pass; `between` is called after every step."""
    limit_offset = log.log_end_offset if limit is None else Offset(limit)
    cleaning = Cleaning(log, limit_offset=limit_offset, buffer_bytes=buffer_bytes)
    for _ in range(100_000):
        is_over = cleaning.step(now_ms, budget_bytes)
        between()
        if is_over:
            settle(log)
            return cleaning
        if cleaning.waits_for_flush:
            flush(log)
    raise AssertionError("the pass does not end")


def settle(log: Log) -> None:
    """Flush until there is nothing left to do."""
    for _ in range(100):
        flush(log)
        if not log.has_new_files:
            return
    raise AssertionError("the log never comes to rest")


def close_segment(log: Log) -> None:
    """And let the mark on disk say so, as it does a second later."""
    log.roll()
    settle(log)
    log.checkpoint()
    settle(log)


def batches_of(log: Log) -> list[tuple[BatchHeader, bytes]]:
    """Every batch with all that is in it, straight from the segments."""
    return [
        (header, bytes(batch))
        for segment in log._segments
        for header, batch in iter_batches(memoryview(segment.file.read(0, segment.size)))
    ]


def records_of(log: Log) -> list[Record]:
    """All that a consumer gets from the log's start on; damage ends it."""
    records: list[Record] = []
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        span = read(log, offset)
        if not isinstance(span, FileSpan):
            break
        for header, batch in iter_batches(memoryview(span.read())):
            records += [
                record for record in decode_records(batch, 1 << 20) if record.offset >= offset
            ]
            offset = header.next_offset
    return records


def latest(records: Iterable[Record]) -> dict[bytes | None, bytes | None]:
    """What a table made of the records would hold, tombstones included."""
    return {record.key: record.value for record in records}

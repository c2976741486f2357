"""Batches as producers send them, and a log driven as the node drives it."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.log.disk import Disk, FileSpan
from tidelog.log.log import Appended, Log
from tidelog.log.paths import FLUSHED
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import TopicSettings, Value, topic_settings
from tidelog.wire.batch import BatchHeader, iter_batches
from tidelog.wire.records import Record, decode_records, encode_batch

NAME = "orders-0"
EPOCH = LeaderEpoch(0)


def settings(**changes: Value) -> TopicSettings:
    """Small segments and a dense index, so that a test of a few KB has several of each."""
    defaults: dict[str, Value] = {"segment.bytes": 1 << 20, "index.interval.bytes": 200}
    return topic_settings(defaults, {name.replace("_", "."): v for name, v in changes.items()})


def a_batch(
    count: int = 1,
    *,
    value: bytes = b"v" * 50,
    timestamps: Sequence[int] = (),
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> memoryview:
    """`producer` is (id, epoch, first sequence)."""
    times = timestamps or [1000 + number for number in range(count)]
    records = [
        Record(offset=number, timestamp=time, value=value) for number, time in enumerate(times)
    ]
    pid, epoch, sequence = producer
    return memoryview(
        encode_batch(
            records, base_offset=0, producer_id=pid, producer_epoch=epoch, base_sequence=sequence
        )
    )


def together(*batches: memoryview) -> memoryview:
    return memoryview(bytearray(b"".join(batches)))


def open_log(
    disk: Disk,
    *,
    clean: bool = False,
    config: TopicSettings | None = None,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Log:
    return Log.open(disk, NAME, config or settings(), clean=clean, safeguards=safeguards)


def append(log: Log, *batches: memoryview, epoch: int = 0, now_ms: int = 1000) -> Appended:
    return log.append(together(*batches), leader_epoch=LeaderEpoch(epoch), now_ms=now_ms)


def fill(log: Log, batches: int, *, count: int = 2, size: int = 50) -> None:
    """So many batches of `count` records each, the timestamps rising with the offsets."""
    for _ in range(batches):
        start = 1000 + log.log_end_offset
        times = range(start, start + count)
        result = append(log, a_batch(count, value=b"v" * size, timestamps=times))
        assert result.error is ErrorCode.NONE


def flush(log: Log) -> None:
    ticket = log.flush_targets()
    if ticket is not None:
        for target in ticket.targets:
            target.sync()
        log.flushed(ticket)


def without_room_for_marks(disk: Disk) -> None:
    """The file of the flushed mark, as earlier releases left it after the first mark."""
    disk.open(f"{NAME}/{FLUSHED}").truncate(100)


def read(
    log: Log, offset: int, *, max_bytes: int = 1 << 20, limit: int | None = None
) -> FileSpan | ErrorCode | None:
    limit = log.log_end_offset if limit is None else limit
    return log.read(
        Offset(offset), max_bytes=max_bytes, limit_offset=Offset(limit), at_least_one=True
    )


def headers_in(span: FileSpan | ErrorCode | None) -> list[BatchHeader]:
    assert isinstance(span, FileSpan), span
    return [header for header, _ in iter_batches(memoryview(span.read()))]


def offsets_in(span: FileSpan | ErrorCode | None) -> list[int]:
    """Base offsets of the batches in an answer."""
    return [header.base_offset for header in headers_in(span)]


def everything(log: Log) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record, as a consumer sees them; damage ends it."""
    records: list[tuple[int, bytes | None]] = []
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        span = read(log, offset)
        if not isinstance(span, FileSpan):
            break
        for header, batch in iter_batches(memoryview(span.read())):
            records += [(record.offset, record.value) for record in decode_records(batch, 1 << 20)]
            offset = header.next_offset
    return records

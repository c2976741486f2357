"""Appends to topics that want batches otherwise than they come: opened, checked, rewritten.

Only where a topic's settings ask for it; the others keep batches as they come and never get here
(`styling_of` gives None). In this order:

- `message.timestamp.before.max.ms`: a batch that is too old is refused.
- `cleanup.policy=compact`: a record without a key is refused, since compaction would drop it; so
  is a batch whose records can't be told apart.
- `compression.type`: a batch of another codec is compressed anew.
- `message.timestamp.type=LogAppendTime`: the batch is dated now, for all of its records.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.log.record_spans import body_of, record_spans
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP
from tidelog.model.setting import INT64_MAX
from tidelog.model.settings import TopicSettings
from tidelog.wire.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    read_header,
    seal,
    write_header,
)
from tidelog.wire.compression import Compression, compress
from tidelog.wire.errors import DecodeError

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_SMALLEST_RECORD_BYTES = 7

Restyled = tuple[memoryview, list[BatchHeader]]


@dataclass(frozen=True, slots=True)
class Styling:
    """What a topic does to its appends."""

    needs_keys: bool
    codec: Compression | None
    dates_appends: bool
    before_max_ms: int
    max_message_bytes: int
    segment_bytes: int

    def apply(
        self, records: memoryview, headers: list[BatchHeader], now_ms: int
    ) -> Restyled | ErrorCode:
        """The batches as they are to be appended, or why they are refused."""
        earliest_ms = NO_TIMESTAMP if self.dates_appends else now_ms - self.before_max_ms
        parts: list[memoryview] = []
        position = 0
        for header in headers:
            if NO_TIMESTAMP < header.max_timestamp < earliest_ms:
                return ErrorCode.INVALID_TIMESTAMP
            batch = records[position : position + header.size]
            position += header.size
            try:
                part = self._opened(batch, header)
            except DecodeError:
                return ErrorCode.INVALID_RECORD
            if isinstance(part, ErrorCode):
                return part
            if self.dates_appends:
                _date(part, now_ms)
            parts.append(part)
        if sum(map(len, parts)) > self.segment_bytes:
            return ErrorCode.RECORD_LIST_TOO_LARGE
        if self.codec is not None:
            records = memoryview(bytearray(b"".join(parts)))
        return records, [read_header(part) for part in parts]

    def _opened(self, batch: memoryview, header: BatchHeader) -> memoryview | ErrorCode:
        is_foreign = self.codec is not None and header.compression != self.codec
        if not (self.needs_keys or is_foreign):
            return batch
        body = body_of(batch, header)
        if self.needs_keys:
            for _, _, _, _, key, _ in record_spans(body, header):
                if key is None:
                    return ErrorCode.INVALID_RECORD
        elif len(body) < header.records_count * _SMALLEST_RECORD_BYTES:
            return ErrorCode.INVALID_RECORD
        if self.codec is None or not is_foreign:
            return batch
        recoded = memoryview(with_body(header, compress(body, self.codec), self.codec))
        return recoded if len(recoded) <= self.max_message_bytes else ErrorCode.MESSAGE_TOO_LARGE


def styling_of(settings: TopicSettings) -> Styling | None:
    """None for a topic that keeps batches as they come."""
    styling = Styling(
        needs_keys=settings.is_compacted,
        codec=_CODECS.get(settings.compression_type),
        dates_appends=settings.message_timestamp_type == "LogAppendTime",
        before_max_ms=settings.message_timestamp_before_max_ms,
        max_message_bytes=settings.max_message_bytes,
        segment_bytes=settings.segment_bytes,
    )
    is_plain = (
        not (styling.needs_keys or styling.dates_appends)
        and styling.codec is None
        and styling.before_max_ms == INT64_MAX
    )
    return None if is_plain else styling


def with_body(header: BatchHeader, payload: bytes, codec: Compression) -> bytearray:
    """A sealed batch that says what `header` says, of other bytes."""
    batch = bytearray(HEADER_BYTES) + payload
    write_header(
        batch,
        header._replace(
            batch_length=len(batch) - LENGTH_PREFIX_BYTES,
            attributes=header.attributes & ~COMPRESSION_MASK | codec,
        ),
    )
    seal(batch)
    return batch


def _date(batch: memoryview, now_ms: int) -> None:
    header = read_header(batch)
    dated = header._replace(attributes=header.attributes | TIMESTAMP_TYPE_BIT, max_timestamp=now_ms)
    write_header(batch, dated)
    seal(batch)

"""Appends to topics that want batches looked at, or otherwise than they come.

Only where a topic's settings ask for it; the others keep batches as they come and never get here
(`styling_of` gives None). In this order:

- `message.timestamp.before.max.ms`: a batch that is too old is refused.
- `records.validation`: a batch whose records can't be read is refused (`log/record_checks.py`).
- `cleanup.policy=compact`: a record without a key is refused, since compaction would drop it.
- `compression.type`: a batch of another codec is compressed anew, at the topic's level for it.
- `message.timestamp.type=LogAppendTime`: the batch is dated now, for all of its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.log.appended import Appended, RecordError, refused
from tidelog.log.record_checks import RecordChecks, Walked, checks_of, sample
from tidelog.log.record_spans import body_of
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

Part = tuple[memoryview, BatchHeader]
Restyled = tuple[memoryview, list[BatchHeader]]


@dataclass(frozen=True, slots=True)
class Styling:
    """What a topic does to its appends."""

    checks: RecordChecks
    rewrites: bool
    """Batches may be dated or compressed anew."""
    only_samples: bool
    """Nothing but `records.validation=sampled` is asked for, as by default."""
    codec: Compression | None
    level: int | None
    dates_appends: bool
    before_max_ms: int
    after_max_ms: int
    max_message_bytes: int
    segment_bytes: int

    def apply(
        self, records: memoryview, headers: list[BatchHeader], now_ms: int
    ) -> Restyled | Appended:
        """The batches as they are to be appended, or why they are refused."""
        try:
            if self.only_samples and len(headers) == 1:
                latest = sample(records, headers[0])
                if latest is None or headers[0].base_timestamp + latest == headers[0].max_timestamp:
                    return records, headers
            return self._apply(records, headers, now_ms)
        except DecodeError as error:
            return refused(ErrorCode.INVALID_RECORD, f"the batch can't be read: {error}")

    def _apply(
        self, records: memoryview, headers: list[BatchHeader], now_ms: int
    ) -> Restyled | Appended:
        earliest_ms = NO_TIMESTAMP if self.dates_appends else now_ms - self.before_max_ms
        restyled: list[Part] = []
        position = first_number = 0
        for header in headers:
            if NO_TIMESTAMP < header.max_timestamp < earliest_ms:
                return refused(ErrorCode.INVALID_TIMESTAMP)
            batch = records[position : position + header.size]
            position += header.size
            walked = self.checks.look_at(batch, header)
            if walked is not None and walked.keyless:
                return _without_keys(walked.keyless, first_number)
            part: Part | ErrorCode = batch, header
            if self.rewrites or (
                walked is not None and walked.latest_timestamp != header.max_timestamp
            ):
                part = self._restyled(batch, header, walked, now_ms)
            if isinstance(part, ErrorCode):
                return refused(part)
            restyled.append(part)
            first_number += header.records_count
        if self.codec is not None:
            parts = [part for part, _ in restyled]
            if sum(map(len, parts)) > self.segment_bytes:
                return refused(ErrorCode.RECORD_LIST_TOO_LARGE)
            records = memoryview(bytearray(b"".join(parts)))
        return records, [header for _, header in restyled]

    def _restyled(
        self, batch: memoryview, header: BatchHeader, walked: Walked | None, now_ms: int
    ) -> Part | ErrorCode:
        """The batch in the topic's codec, with the timestamp that is right for it."""
        newest = now_ms if self.dates_appends else header.max_timestamp
        if walked is not None and not self.dates_appends:
            newest = max(walked.latest_timestamp, NO_TIMESTAMP)
            if newest > min(now_ms + self.after_max_ms, INT64_MAX):
                return ErrorCode.INVALID_TIMESTAMP
        is_foreign = self.codec is not None and header.compression != self.codec
        if self.dates_appends or newest != header.max_timestamp:
            bit = TIMESTAMP_TYPE_BIT if self.dates_appends else 0
            header = header._replace(attributes=header.attributes | bit, max_timestamp=newest)
            if not is_foreign:
                write_header(batch, header)
                seal(batch)
        if self.codec is None or not is_foreign:
            return batch, header
        body = walked.body if walked is not None else None
        if body is None:
            body = body_of(batch, header)
        if len(body) < header.records_count * _SMALLEST_RECORD_BYTES:
            return ErrorCode.INVALID_RECORD
        batch = memoryview(
            with_body(header, compress(body, self.codec, level=self.level), self.codec)
        )
        if len(batch) > self.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        return batch, read_header(batch)


def _without_keys(keyless: Sequence[int], first_number: int) -> Appended:
    said = "this record has no key, and the topic is compacted: the latest of each key is kept"
    errors = tuple(RecordError(first_number + number, said) for number in keyless)
    count = "a record has" if len(errors) == 1 else f"{len(errors)} records of the batch have"
    return refused(
        ErrorCode.INVALID_RECORD,
        f"{count} no key, which a compacted topic needs, so none of the batch was appended",
        errors,
    )


def styling_of(settings: TopicSettings) -> Styling | None:
    """None for a topic that keeps batches as they come."""
    codec = _CODECS.get(settings.compression_type)
    dates_appends = settings.message_timestamp_type == "LogAppendTime"
    checks = checks_of(settings)
    rewrites = dates_appends or codec is not None
    is_any_age_fine = settings.message_timestamp_before_max_ms == INT64_MAX
    styling = Styling(
        checks=checks,
        rewrites=rewrites,
        only_samples=checks.is_sampled and not checks.is_full and not rewrites and is_any_age_fine,
        codec=codec,
        level=None if codec is None else _level_of(settings, codec),
        dates_appends=dates_appends,
        before_max_ms=settings.message_timestamp_before_max_ms,
        after_max_ms=settings.message_timestamp_after_max_ms,
        max_message_bytes=settings.max_message_bytes,
        segment_bytes=settings.segment_bytes,
    )
    return None if checks.does_nothing and not rewrites and is_any_age_fine else styling


def _level_of(settings: TopicSettings, codec: Compression) -> int | None:
    """None: what the codec does when it is told no level."""
    if codec is Compression.GZIP and settings.compression_gzip_level > 0:
        return settings.compression_gzip_level
    if codec is Compression.ZSTD:
        return settings.compression_zstd_level
    return None


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

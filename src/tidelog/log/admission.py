"""Are these bytes batches that a producer may append? Looked at before anything is changed.

HOT PATH: once per produced batch; reads 61 bytes of it and checksums the rest.
"""

from __future__ import annotations

from crc32c import crc32c

from tidelog.log.segment_indexes import MAX_RELATIVE_OFFSET
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER
from tidelog.model.settings import TopicSettings
from tidelog.wire.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
)

DELETE_HORIZON_BIT = 0x40
"""Set by compaction, never by a producer: the base timestamp says when tombstones may go."""

_MAX_COMPRESSION = 4
_SMALLEST_RECORD_BYTES = 7
"""Size, attributes, two deltas, three empty lengths: a byte each."""
_ODD_ATTRIBUTES = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


def check_batches(
    records: memoryview, settings: TopicSettings, *, latest_ms: int
) -> list[BatchHeader] | ErrorCode:
    """The header of each batch in `records`, or why they are refused. No timestamp may lie after
    `latest_ms`."""
    headers: list[BatchHeader] = []
    position, end = 0, len(records)
    count = 0
    while position < end:
        if end - position < HEADER_BYTES:
            return ErrorCode.CORRUPT_MESSAGE
        header = read_header(records, position)
        size = header.batch_length + LENGTH_PREFIX_BYTES
        if header.magic != MAGIC:
            is_older = 0 <= header.magic < MAGIC
            return (
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if is_older else ErrorCode.CORRUPT_MESSAGE
            )
        if size < HEADER_BYTES or position + size > end:
            return ErrorCode.CORRUPT_MESSAGE
        if size > settings.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        if crc32c(records[position + CRC_FROM : position + size]) != header.crc:
            return ErrorCode.CORRUPT_MESSAGE
        refusal = _refusal(header)
        if refusal is not None:
            return refusal
        if header.max_timestamp > latest_ms:
            return ErrorCode.INVALID_TIMESTAMP
        headers.append(header)
        position += size
        count += header.records_count
    if not headers or count > MAX_RELATIVE_OFFSET:
        return ErrorCode.INVALID_RECORD
    return ErrorCode.RECORD_LIST_TOO_LARGE if end > settings.segment_bytes else headers


def _refusal(header: BatchHeader) -> ErrorCode | None:
    """What an intact batch may not say, coming from a producer."""
    attributes = header.attributes
    if header.records_count <= 0 or header.last_offset_delta != header.records_count - 1:
        return ErrorCode.INVALID_RECORD
    compression = attributes & COMPRESSION_MASK
    if compression > _MAX_COMPRESSION:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if not compression and header.records_count * _SMALLEST_RECORD_BYTES > (
        header.batch_length + LENGTH_PREFIX_BYTES - HEADER_BYTES
    ):
        return ErrorCode.INVALID_RECORD
    if attributes & _ODD_ATTRIBUTES:
        if attributes & (CONTROL_BIT | DELETE_HORIZON_BIT):
            return ErrorCode.INVALID_RECORD
        if attributes & TRANSACTIONAL_BIT:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.INVALID_TIMESTAMP
    if header.producer_id != NO_PRODUCER and (
        header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0
    ):
        return ErrorCode.INVALID_RECORD
    return None

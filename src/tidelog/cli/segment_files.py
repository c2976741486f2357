"""Reading a partition's files without a broker: each becomes a document that says what is in it.

The formats are Kafka's. A `.log` file is record batches one after the other; an `.index` file is
rows of (offset - base offset, position), a `.timeindex` file rows of (timestamp, offset - base
offset), the base offset being the file's name. Nothing here trusts the bytes: damage is a finding,
never an exception.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tidelog.cli.record_text import text_or_base64
from tidelog.log.index import OFFSET_ENTRY, TIME_ENTRY
from tidelog.log.paths import INDEX, LOG, TIME_INDEX
from tidelog.wire.batch import HEADER_BYTES, MAGIC, BatchHeader, has_valid_crc, read_header
from tidelog.wire.compression import Compression
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Record, decode_records

SUFFIXES = (f".{LOG}", f".{INDEX}", f".{TIME_INDEX}")

MOST_OPENED_BYTES = 256 * 2**20
"""A batch that decompresses to more than this is not opened."""


@dataclass(frozen=True, slots=True)
class BatchFound:
    """A whole batch; its bytes are valid while the file is open."""

    position: int
    header: BatchHeader
    data: memoryview
    has_valid_crc: bool


@dataclass(frozen=True, slots=True)
class Damage:
    """Where the file stops making sense, and why. Nothing after it can be read."""

    position: int
    reason: str


def examine(path: Path, *, with_records: bool = False) -> dict[str, Any]:
    """The document of one file: `batches` or `entries`, and `problems` in words."""
    document: dict[str, Any] = {"file": str(path), "bytes": path.stat().st_size}
    if path.suffix == f".{INDEX}":
        return {**document, **_examine_index(path)}
    if path.suffix == f".{TIME_INDEX}":
        return {**document, **_examine_time_index(path)}
    return {**document, **_examine_segment(path, with_records=with_records)}


def find_files(path: Path) -> list[Path]:
    """`path` itself, or every log and index file below it, by directory and name."""
    if path.is_dir():
        found = (file for file in path.rglob("*") if file.suffix in SUFFIXES)
        return sorted(file for file in found if file.stem.isdecimal())
    return [path]


def base_offset(path: Path) -> int:
    """The offset a file is named by; -1 if its name is no offset."""
    return int(path.stem) if path.stem.isdecimal() else -1


@contextmanager
def opened(path: Path) -> Iterator[memoryview]:
    """The file's bytes, mapped; a segment may be larger than memory."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                yield view
            finally:
                view.release()


def scan_batches(data: memoryview) -> Iterator[BatchFound | Damage]:
    """Each batch of a segment, in order; at most one `Damage`, at the end.

    A batch with a wrong checksum is reported and passed over by its own length. A length that
    makes no sense ends the scan.
    """
    position, end = 0, len(data)
    while position < end:
        if end - position < HEADER_BYTES:
            yield Damage(position, f"{end - position} bytes left, too few for a batch")
            return
        header = read_header(data, position)
        if reason := _nonsense(header, left=end - position):
            yield Damage(position, reason)
            return
        with data[position : position + header.size] as batch:
            yield BatchFound(position, header, batch, has_valid_crc(batch, header))
        position += header.size


def _examine_segment(path: Path, *, with_records: bool) -> dict[str, Any]:
    batches: list[dict[str, Any]] = []
    problems: list[str] = []
    next_offset = 0
    with opened(path) as data:
        for found in scan_batches(data):
            if isinstance(found, Damage):
                problems.append(f"position {found.position}: {found.reason}")
                break
            batch = _batch_document(found)
            if not found.has_valid_crc:
                problems.append(f"position {found.position}: the checksum is wrong")
            elif found.header.base_offset < next_offset:
                problems.append(f"position {found.position}: the offsets go backwards")
            if with_records:
                batch["opened"] = _opened_records(found, problems)
            next_offset = found.header.next_offset
            batches.append(batch)
    return {"batches": batches, "problems": problems}


def _batch_document(found: BatchFound) -> dict[str, Any]:
    header = found.header
    return {
        "position": found.position,
        "bytes": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.records_count,
        "leader_epoch": header.leader_epoch,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "compression": _codec_name(header.compression),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "valid_crc": found.has_valid_crc,
    }


def _codec_name(number: int) -> str:
    known = {codec.value: codec.name.lower() for codec in Compression}
    return known.get(number, f"codec {number}")


def _opened_records(found: BatchFound, problems: list[str]) -> list[dict[str, Any]]:
    if not found.has_valid_crc:
        return []
    try:
        records = decode_records(found.data, MOST_OPENED_BYTES, check_crc=False)
    except DecodeError as error:
        offset = found.header.base_offset
        problems.append(f"position {found.position}, the batch at offset {offset}: {error}")
        return []
    return [_record_document(record) for record in records]


def _record_document(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": [
            {"name": name, **text_or_base64("value", value)} for name, value in record.headers
        ],
    }


def _examine_index(path: Path) -> dict[str, Any]:
    """An entry must lead to a batch that holds its offset, if the segment lies beside it."""
    base = base_offset(path)
    rows, problems = _rows(path, OFFSET_ENTRY)
    entries = [{"offset": base + delta, "position": position} for delta, position in rows]
    segment = path.with_suffix(f".{LOG}")
    spans = _batch_spans(segment) if segment.exists() else None
    for entry in entries if spans is not None else ():
        first, last = (spans or {}).get(entry["position"], (0, -1))
        if not first <= entry["offset"] <= last:
            problems.append(
                f"offset {entry['offset']} is not in a batch at position {entry['position']}"
            )
    return {"entries": entries, "problems": problems}


def _examine_time_index(path: Path) -> dict[str, Any]:
    base = base_offset(path)
    rows, problems = _rows(path, TIME_ENTRY)
    entries = [{"offset": base + delta, "timestamp": timestamp} for timestamp, delta in rows]
    for earlier, later in pairwise(entries):
        if later["timestamp"] < earlier["timestamp"]:
            problems.append(f"the time of offset {later['offset']} is before the entry above it")
    return {"entries": entries, "problems": problems}


def _batch_spans(segment: Path) -> dict[int, tuple[int, int]]:
    """First and last offset of each batch, by position."""
    with opened(segment) as data:
        return {
            found.position: (found.header.base_offset, found.header.last_offset)
            for found in scan_batches(data)
            if isinstance(found, BatchFound)
        }


def _rows(path: Path, layout: struct.Struct) -> tuple[list[tuple[int, int]], list[str]]:
    """The whole rows of an index file, and a complaint if there is more than whole rows."""
    content = path.read_bytes()
    rest = len(content) % layout.size
    problems = [f"{rest} bytes after the last whole entry"] if rest else []
    return list(layout.iter_unpack(content[: len(content) - rest])), problems


def _nonsense(header: BatchHeader, *, left: int) -> str:
    """Why this can't be a batch's header; empty if it can."""
    if header.magic != MAGIC:
        return f"magic byte {header.magic}, not {MAGIC}"
    if header.size < HEADER_BYTES:
        return f"a batch of {header.size} bytes, smaller than its header"
    if header.size > left:
        return f"a batch of {header.size:,} bytes where {left:,} are left"
    return ""

"""I18: at rest, all replicas of a partition hold the same (I5, to the byte).

But each node compacts its logs in its own time, and a pass may be half done. So where the bytes of
a compacted log differ, its records are compared: what two nodes have at an offset is the same, and
only what a pass may drop is missing anywhere. That is a record of a key that has a later one, a
tombstone, and a record without a key.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.log.log import Log
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset
from tidelog.wire.batch import iter_batches
from tidelog.wire.records import Record, decode_records

_MAX_BYTES = 1 << 20
"""Of a read, and of a batch; nothing here is larger."""


def bytes_of(log: Log) -> bytes | None:
    """All that the log holds; None if some of it can't be read."""
    parts: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        span = log.read(
            offset,
            max_bytes=_MAX_BYTES,
            limit_offset=log.log_end_offset,
            at_least_one=True,
            skips_empty=False,
        )
        assert span is not None
        if isinstance(span, ErrorCode):
            return None
        data = span.read()
        parts.append(data)
        for header, _ in iter_batches(memoryview(data)):
            offset = Offset(header.next_offset)
    return b"".join(parts)


def find_difference(logs: Mapping[NodeId, Log]) -> str | None:
    """Where the logs of one partition are not the same, if they are not."""
    contents: dict[bytes, NodeId] = {}
    for node_id, log in logs.items():
        data = bytes_of(log)
        assert data is not None, f"{log.directory.path} at {node_id} can't be read"
        contents.setdefault(data, node_id)
    if len(contents) == 1:
        return None
    if any(log.settings.is_compacted or log.cleaned_offset > 0 for log in logs.values()):
        return _find_in_records({node_id: _records_in(data) for data, node_id in contents.items()})
    return f"not the same on all of its nodes: {sorted(contents.values())}"


def _records_in(data: bytes) -> dict[int, Record]:
    return {
        record.offset: record
        for _, batch in iter_batches(memoryview(data))
        for record in decode_records(batch, _MAX_BYTES)
    }


def _find_in_records(held: Mapping[NodeId, Mapping[int, Record]]) -> str | None:
    offsets = sorted({offset for records in held.values() for offset in records})
    latest: dict[bytes | None, int] = {}
    found: dict[int, dict[NodeId, Record]] = {}
    for offset in offsets:
        here = {node_id: records[offset] for node_id, records in held.items() if offset in records}
        found[offset] = here
        latest.update((record.key, offset) for record in here.values())
    for offset, here in found.items():
        first = next(iter(here.values()))
        if any(record != first for record in here.values()):
            return f"not the same at {offset} on its nodes {sorted(here)}"
        is_superseded = first.key is None or first.value is None or latest[first.key] > offset
        if len(here) < len(held) and not is_superseded:
            return f"without its record at {offset} on {sorted(held.keys() - here.keys())}"
    return None

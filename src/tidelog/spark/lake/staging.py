"""The rows a batch brings to a table of latest values: found by tasks, put together by the driver.

A task keeps, of each piece of its split, the last record of each key, and writes those to a staged
file; the driver picks each key's winner among all of them by its key and place alone, and streams
only the winners into the merge. So nobody holds more than a piece, or the keys of one batch.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.spark.lake.latest_table import LATEST_SCHEMA

PIECE_BYTES = 64 * 1024 * 1024
STAGED = "_tidelog/staged"
_READ_ROWS = 16_384
_PLACE = ("key", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Candidates of one split; `name` below `STAGED`."""

    name: str
    partition: int
    rows: int
    size: int
    without_key: int


def stage(table: Path, partition: int, batches: Iterable[pa.RecordBatch]) -> StagedFile:
    """Write the candidates among `batches`, which are in the order of their offsets."""
    directory = table / STAGED
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{uuid.uuid4().hex}.parquet"
    rows = without_key = 0
    try:
        with pq.ParquetWriter(directory / name, LATEST_SCHEMA, compression="snappy") as writer:
            for piece in _pieces(batches):
                keyed = piece.filter(pc.is_valid(piece["key"]))
                latest = last_of_each_key(keyed)
                without_key += piece.num_rows - keyed.num_rows
                rows += latest.num_rows
                writer.write_table(latest)
    except OSError:
        with suppress(OSError):
            os.unlink(directory / name)
        raise
    return StagedFile(name, partition, rows, (directory / name).stat().st_size, without_key)


def last_of_each_key(rows: pa.Table) -> pa.Table:
    """Of rows of one partition, those with the highest offset of their key."""
    highest = rows.group_by("key").aggregate([("offset", "max")])["offset_max"]
    return rows.filter(pc.is_in(rows["offset"], value_set=highest))


def winners(places: pa.Table) -> dict[int, pa.Array]:
    """Of `key, partition, offset, timestamp`, the offsets in each partition that hold the latest
    row of a key. Each key wins once: by offset within a partition, by time between partitions."""
    by_offset = places.sort_by([("partition", "ascending"), ("offset", "ascending")])
    kept = by_offset.group_by(["key", "partition"], use_threads=False).aggregate(
        [("offset", "last"), ("timestamp", "last")]
    )
    by_time = kept.sort_by([("timestamp_last", "ascending"), ("partition", "ascending")])
    final = by_time.group_by("key", use_threads=False).aggregate(
        [("partition", "last"), ("offset_last", "last")]
    )
    found = {}
    for partition in sorted(pc.unique(final["partition_last"]).to_pylist()):
        mine = final.filter(pc.equal(final["partition_last"], partition))
        found[partition] = mine["offset_last_last"].combine_chunks()
    return found


def winning_rows(table: Path, files: Sequence[StagedFile]) -> pa.RecordBatchReader:
    """The rows to merge, as a stream. A key is in it once."""
    directory = table / STAGED
    read = [pq.read_table(directory / file.name, columns=list(_PLACE)) for file in files]
    chosen = winners(pa.concat_tables(read))
    del read

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            if file.partition not in chosen:
                continue
            with pq.ParquetFile(directory / file.name) as staged:
                for batch in staged.iter_batches(_READ_ROWS):
                    wins = pc.is_in(batch.column("offset"), value_set=chosen[file.partition])
                    yield batch.filter(wins).cast(LATEST_SCHEMA)

    return pa.RecordBatchReader.from_batches(LATEST_SCHEMA, batches())


def clear_staged(table: Path) -> None:
    """What was merged, or left by a driver that was killed. Only with the lock."""
    for path in (table / STAGED).glob("*.parquet"):
        path.unlink(missing_ok=True)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch.select(LATEST_SCHEMA.names))
        size += batch.nbytes
        if size >= PIECE_BYTES:
            yield pa.Table.from_batches(waiting).cast(LATEST_SCHEMA)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting).cast(LATEST_SCHEMA)

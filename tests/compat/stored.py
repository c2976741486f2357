"""What the node has on disk, seen without the node: batch headers of a topic's segment files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidelog.wire.batch import BatchHeader, iter_batches


def stored_batches(data_dir: Path, topic: str, partition: int = 0) -> Iterator[BatchHeader]:
    """The batches of one partition, in order. Only for a topic whose records are acknowledged."""
    directories = list((data_dir / "topics").glob(f"{topic}.*"))
    assert len(directories) == 1, f"{topic}: {directories}"
    for segment in sorted((directories[0] / str(partition)).glob("*.log")):
        for header, _ in iter_batches(memoryview(segment.read_bytes())):
            yield header

"""The line about cold reads: who waits while a consumer reads what is not in the page cache.

The kernel is told to drop the pages of the log's files again and again while they are read, so
that every read goes to the disk. A producer writes to another topic of the server meanwhile, as it
did before: the difference is what the cold scan costs it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from tidelog.bench.frames import KILOBYTE, SINGLE_KILOBYTE
from tidelog.bench.lines import Bench
from tidelog.bench.load import run_apart
from tidelog.bench.measure import Topic
from tidelog.bench.servers import Kind

PRODUCE_RATE = 1_000
_DROP_EVERY_SECONDS = 0.02


def cold(bench: Bench) -> None:
    if bench.fleet.is_external:
        return
    for _ in range(bench.scale.rounds):
        for kind in bench.fleet.brokers:
            _beside_a_cold_scan(bench, kind)


def _beside_a_cold_scan(bench: Bench, kind: Kind) -> None:
    measure = bench.measure
    requests = bench.scale.log_bytes // KILOBYTE.data_bytes
    with bench.topic(kind) as topic, measure.topic(topic.server) as other:
        measure.produce(topic, KILOBYTE, requests=requests)
        with _dropping_pages(topic):  # alike in both, so that only the scan differs
            alone = measure.paced(other, SINGLE_KILOBYTE, rate=PRODUCE_RATE)
        bench.keep("cold.none", topic.server, "raw", alone)
        end_offset = requests * KILOBYTE.records
        with _dropping_pages(topic):
            scanned, beside = run_apart(
                [
                    measure.consume_job(topic, KILOBYTE, end_offset=end_offset),
                    measure.paced_job(other, SINGLE_KILOBYTE, rate=PRODUCE_RATE),
                ]
            )
        bench.keep("cold.scan", topic.server, "raw", scanned)
        bench.keep("cold.beside", topic.server, "raw", beside)


@contextlib.contextmanager
def _dropping_pages(topic: Topic) -> Iterator[None]:
    """No page of the topic's segments stays in memory for long. They are flushed first: the kernel
    keeps what it has still to write."""
    assert topic.server.data_dir is not None, "only of a server that was started here"
    is_over = threading.Event()
    with contextlib.ExitStack() as stack:
        descriptors = []
        for path in _segments(topic.server.data_dir, topic.name):
            descriptor = os.open(path, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            os.fsync(descriptor)
            descriptors.append(descriptor)

        def drop() -> None:
            while not is_over.wait(_DROP_EVERY_SECONDS):
                for descriptor in descriptors:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

        dropper = threading.Thread(target=drop)
        dropper.start()
        try:
            yield
        finally:
            is_over.set()
            dropper.join()


def _segments(data_dir: Path, topic: str) -> list[Path]:
    """Of its one partition: below `TOPIC.ID/0` in a node's directory, in `TOPIC-0` in Kafka's."""
    found = [*data_dir.rglob(f"{topic}.*/0/*.log"), *data_dir.rglob(f"{topic}-0/*.log")]
    assert found, f"no segment of {topic} below {data_dir}"
    return found

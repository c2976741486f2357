"""The line about compaction: how fast a log full of old values shrinks, and who waits meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from tidelog.bench.admin import Admin, WrongAnswer, expect_none
from tidelog.bench.figures import MB, Outcome
from tidelog.bench.frames import (
    ACKS_LEADER,
    FETCH_VERSION,
    SINGLE_KILOBYTE,
    key_of,
    keyed_batch,
    produce_frames,
)
from tidelog.bench.jobs import PumpJob
from tidelog.bench.lines import Bench
from tidelog.bench.load import run_apart
from tidelog.bench.measure import PRODUCE_IN_FLIGHT, Topic
from tidelog.bench.membership import fetch_request
from tidelog.bench.proc import cpu_seconds
from tidelog.bench.samples import SampleKey, metrics_of
from tidelog.wire.batch import read_header
from tidelog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.records import decode_records

BATCH_RECORDS = 100
VALUE_BYTES = 1_000
KEYS = 10_000
SEGMENT_BYTES = 8_000_000
PRODUCE_RATE = 1_000

_NODE_SETTINGS = {"log.cleaner.backoff.ms": "100"}
_TOPIC_SETTINGS = {"segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"}
_DESCRIBE_LOG_DIRS_VERSION = 2
_ALTER_CONFIGS_VERSION = 1
_TOPIC_RESOURCE = 2
_SET = 0
_POLL_SECONDS = 0.02
_SETTLED_SECONDS = 2.0
"""A log that has not shrunk for so long, after it had begun to, is done."""

_GIVE_UP_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Shrinking:
    """From the moment compaction was switched on to the last time the log became smaller."""

    seconds: float
    cpu_seconds: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class Filling:
    """What is written to the log: `batches` of equal size, their keys going round and round."""

    batches: int
    batch_bytes: int

    @property
    def closed_batches(self) -> int:
        """All but those in the segment in use."""
        in_a_segment = SEGMENT_BYTES // self.batch_bytes
        return (self.batches - 1) // in_a_segment * in_a_segment

    @property
    def closed_bytes(self) -> int:
        """All that has to be read, whatever of it is kept."""
        return self.closed_batches * self.batch_bytes

    def kept_offsets(self) -> range:
        """What compaction must leave: the last record of each key, and what it may not touch."""
        first = max(0, self.closed_batches * BATCH_RECORDS - KEYS)
        return range(first, self.batches * BATCH_RECORDS)


def compaction(bench: Bench) -> None:
    """First alone, for its speed; then beside a paced producer, for the producer's latency."""
    if bench.fleet.is_external:
        return
    batches = bench.scale.dirty_bytes // (BATCH_RECORDS * VALUE_BYTES)
    filling = Filling(batches, len(_batches(bench)[0]))
    for _ in range(bench.scale.rounds):
        with _dirty_topic(bench, filling) as topic:
            _keep_speed(bench, _shrink(topic), filling)
            _check_records(topic, filling)
        _beside_producer(bench, filling)


@contextmanager
def _dirty_topic(bench: Bench, filling: Filling) -> Iterator[Topic]:
    """A log in which every key has many values. It is not compacted yet: the clock starts when the
    policy is changed, so that writing the log is no part of the figure."""
    with (
        bench.fleet.server("node", settings=_NODE_SETTINGS) as server,
        bench.measure.topic(server, settings=_TOPIC_SETTINGS) as topic,
    ):
        run_apart([_fill_job(bench, topic, filling)])
        yield topic


def _batches(bench: Bench) -> list[bytes]:
    """Each key once, in order; all of the same size."""
    return [
        keyed_batch(
            range(first, first + BATCH_RECORDS),
            value_bytes=VALUE_BYTES,
            timestamp_ms=bench.measure.now_ms,
        )
        for first in range(0, KEYS, BATCH_RECORDS)
    ]


def _fill_job(bench: Bench, topic: Topic, filling: Filling) -> PumpJob:
    """One connection, so that the batches arrive in order."""
    frames = [
        produce_frames(topic.name, [0], batch=batch, acks=ACKS_LEADER)[0]
        for batch in _batches(bench)
    ]
    return PumpJob(
        host=topic.server.host,
        port=topic.server.port,
        server_pid=topic.server.pid,
        seconds=bench.scale.seconds,
        frames_path=bench.measure.written("keyed", frames),
        connections=1,
        in_flight=PRODUCE_IN_FLIGHT,
        records_per_request=BATCH_RECORDS,
        bytes_per_request=BATCH_RECORDS * VALUE_BYTES,
        requests=filling.batches,
    )


def _shrink(topic: Topic) -> Shrinking:
    """Switch compaction on and watch the size of the log."""
    with Admin(topic.server.host, topic.server.port) as admin:
        before = size = _log_bytes(admin, topic.name)
        began_at, cpu_before = time.monotonic(), cpu_seconds(topic.server.pid)
        _compact(admin, topic.name)
        ended_at, cpu_after = began_at, cpu_before
        while True:
            time.sleep(_POLL_SECONDS)
            now, found = time.monotonic(), _log_bytes(admin, topic.name)
            if found < size:
                size, ended_at, cpu_after = found, now, cpu_seconds(topic.server.pid)
            elif size < before and now - ended_at > _SETTLED_SECONDS:
                break
            elif now - began_at > _GIVE_UP_SECONDS:
                raise WrongAnswer(f"a log of {before} bytes was not compacted")
    return Shrinking(ended_at - began_at, cpu_after - cpu_before, ended_at)


def _log_bytes(admin: Admin, topic: str) -> int:
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[0])])
    (result,) = admin.ask(request, _DESCRIBE_LOG_DIRS_VERSION).results
    expect_none(result.error_code, f"the size of {topic}")
    size: int = result.topics[0].partitions[0].partition_size
    return size


def _compact(admin: Admin, topic: str) -> None:
    config = AlterableConfig(name="cleanup.policy", config_operation=_SET, value="compact")
    resource = AlterConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = admin.ask(request, _ALTER_CONFIGS_VERSION)
    expect_none(answer.responses[0].error_code, f"compacting {topic}")


def _keep_speed(bench: Bench, shrinking: Shrinking, filling: Filling) -> None:
    megabytes = filling.closed_bytes / MB
    metrics = {"mb_per_s": megabytes / shrinking.seconds}
    if shrinking.cpu_seconds:
        metrics["mb_per_cpu_s"] = megabytes / shrinking.cpu_seconds
    bench.samples.add(SampleKey("compaction", "node", "raw"), metrics)
    bench.say("compaction: node")


def _check_records(topic: Topic, filling: Filling) -> None:
    """Exactly the last record of every key is left, and the segment in use as it was."""
    found: list[tuple[int, bytes | None]] = []
    offset, end = 0, filling.batches * BATCH_RECORDS
    with Admin(topic.server.host, topic.server.port) as admin:
        while offset < end:
            answer = admin.ask(fetch_request(topic.name, offset), FETCH_VERSION)
            view = memoryview(bytes(answer.responses[0].partitions[0].records or b""))
            if not view:
                raise WrongAnswer(f"nothing at offset {offset} of {end} after compaction")
            while view:
                header = read_header(view)
                for record in decode_records(view[: header.size], SEGMENT_BYTES):
                    found.append((record.offset, record.key))
                offset = header.base_offset + header.last_offset_delta + 1
                view = view[header.size :]
    kept = filling.kept_offsets()
    if found != [(offset, key_of(offset % KEYS)) for offset in kept]:
        raise WrongAnswer(f"compaction left {len(found)} records, not the last {len(kept)}")


def _beside_producer(bench: Bench, filling: Filling) -> None:
    """The producer writes to a topic of its own. It is measured before compaction, too: the
    difference is what compaction costs it."""
    with _dirty_topic(bench, filling) as topic, bench.measure.topic(topic.server) as other:
        before = bench.measure.paced(other, SINGLE_KILOBYTE, rate=PRODUCE_RATE)
        _keep_latency(bench, "compaction.none", before)
        with ThreadPoolExecutor(1) as pool:
            watched = pool.submit(_shrink, topic)
            during = bench.measure.paced(other, SINGLE_KILOBYTE, rate=PRODUCE_RATE)
            produced_at = time.monotonic()
        shrinking = watched.result()
    if shrinking.ended_at >= produced_at:
        _keep_latency(bench, "compaction.produce", during)
    else:
        bench.say("compaction.produce: left out, compaction was over before the producer")


def _keep_latency(bench: Bench, line: str, outcome: Outcome) -> None:
    metrics = metrics_of(outcome, has_cpu=True)
    bench.samples.add(SampleKey(line, "node", "raw"), metrics)
    bench.say(f"{line}: node")

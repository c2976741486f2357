"""The lines of the table, each a function that measures it on every server that takes part."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tidelog.bench.admin import Admin, WrongAnswer
from tidelog.bench.figures import Outcome, median
from tidelog.bench.fleet import Fleet
from tidelog.bench.frames import (
    HUNDRED_BYTES,
    KILOBYTE,
    SINGLE,
    SINGLE_KILOBYTE,
    SMALL_BATCH,
    Shape,
    record_batch,
)
from tidelog.bench.load import run_apart
from tidelog.bench.machine import touch_memory
from tidelog.bench.measure import FETCH_BATCHES, START_DELAY_SECONDS, Measure, Topic
from tidelog.bench.proc import peak_rss_bytes, rss_bytes
from tidelog.bench.rows import FEWER_MEMBERS, MANY_MEMBERS
from tidelog.bench.samples import Driver, SampleKey, Samples, metrics_of
from tidelog.bench.servers import Kind, Server, node_command, running

LATENCY_RATE = 5_000
REQUEST_CONNECTIONS = 50
INSTALLED_RATE = 4_000
INSTALLED_PRODUCERS = 20
"""Records a second of all producers together, and how many those are."""
MANY_PARTITIONS = 1_000
MANY_CONNECTIONS = 500
EXPECTED_BYTES_PER_SECOND = 1.2e9
"""How fast a server may fill page cache: what `touch_memory` provides for."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything. `rounds` repeats the throughput lines, whose median is shown."""

    seconds: float
    rounds: int
    log_bytes: int
    """Read by the consume line."""

    loaded_bytes: int
    """In the data directory of the start after a clean stop."""

    starts: int
    joins: int
    """Groups that are joined, each for the first time."""

    idle_members: int
    dirty_bytes: int
    """Written to the log that is compacted."""

    failovers: int
    """Leaders that are killed, and as many that are stopped."""

    spark_rows: int
    """Of 100 bytes each, scanned and written by Spark."""


FULL = Scale(
    seconds=1.5,
    rounds=3,
    log_bytes=10**9,
    loaded_bytes=10**10,
    starts=5,
    joins=10,
    idle_members=MANY_MEMBERS,
    dirty_bytes=4 * 10**8,
    failovers=5,
    spark_rows=4 * 10**6,
)
QUICK = Scale(
    seconds=1.0,
    rounds=1,
    log_bytes=4 * 10**8,
    loaded_bytes=10**9,
    starts=3,
    joins=5,
    idle_members=FEWER_MEMBERS,
    dirty_bytes=2 * 10**8,
    failovers=2,
    spark_rows=10**6,
)


@dataclass(frozen=True, slots=True)
class Bench:
    """What every line needs."""

    fleet: Fleet
    measure: Measure
    scale: Scale
    samples: Samples
    say: Callable[[str], None]
    connector_dir: Path | None = None
    """Jars of Spark's own Kafka connector, to scan beside ours."""

    def keep(self, line: str, server: Server, driver: Driver, outcome: Outcome) -> None:
        metrics = metrics_of(outcome, has_cpu=server.pid != 0)
        self.samples.add(SampleKey(line, server.kind, driver), metrics)
        self.say(f"{line}: {server.kind}, {driver}")

    @contextlib.contextmanager
    def topic(
        self,
        kind: Kind,
        *,
        partitions: int = 1,
        is_flushed: bool = False,
        fetch_bytes: int = 0,
        is_heavy: bool = True,
    ) -> Iterator[Topic]:
        """A topic on a fresh server. `is_heavy` prepares the memory that much data will take."""
        with (
            self.fleet.server(kind, is_flushed=is_flushed, fetch_bytes=fetch_bytes) as server,
            self.measure.topic(server, partitions=partitions, is_flushed=is_flushed) as topic,
        ):
            if is_heavy:
                self.freshen_memory()
            yield topic

    def freshen_memory(self) -> None:
        touch_memory(int((self.scale.seconds + 0.5) * EXPECTED_BYTES_PER_SECOND))


def produce(bench: Bench) -> None:
    """Rounds go through all servers in turn, so that a slow minute hits each of them alike."""
    for _ in range(bench.scale.rounds):
        _produce_line(bench, "produce.os", KILOBYTE, is_flushed=False)
    for _ in range(bench.scale.rounds):
        _produce_line(bench, "produce.flushed", KILOBYTE, is_flushed=True)
    _produce_line(bench, "produce.100", HUNDRED_BYTES, is_flushed=False)


def _produce_line(bench: Bench, line: str, shape: Shape, *, is_flushed: bool) -> None:
    for kind in bench.fleet.everyone:
        with bench.topic(kind, is_flushed=is_flushed) as topic:
            bench.keep(line, topic.server, "raw", bench.measure.produce(topic, shape))
            _keep_peak_memory(bench, topic.server)
    for kind in bench.fleet.brokers:
        with bench.topic(kind, is_flushed=is_flushed) as topic:
            outcome = bench.measure.client_produce(topic, shape.value_bytes)
            bench.keep(line, topic.server, "client", outcome)


def _keep_peak_memory(bench: Bench, server: Server) -> None:
    if server.pid:
        peak = {"rss_mb": peak_rss_bytes(server.pid) / 1e6}
        bench.samples.add(SampleKey("memory.loaded", server.kind, "raw"), peak)


def consume(bench: Bench) -> None:
    """A log that is in the page cache, then a log that is being written."""
    fetch_bytes = FETCH_BATCHES * len(record_batch(KILOBYTE, bench.measure.now_ms))
    requests = bench.scale.log_bytes // KILOBYTE.data_bytes
    for kind in bench.fleet.everyone:
        with bench.topic(kind, fetch_bytes=fetch_bytes) as topic:
            bench.measure.produce(topic, KILOBYTE, requests=requests)
            _consume_rounds(bench, topic, requests * KILOBYTE.records)
    for kind in bench.fleet.brokers:
        _both(bench, kind)


def _consume_rounds(bench: Bench, topic: Topic, records: int) -> None:
    for _ in range(bench.scale.rounds):
        raw_job = bench.measure.consume_job(topic, KILOBYTE, end_offset=records)
        bench.keep("consume", topic.server, "raw", run_apart([raw_job])[0])
        if topic.server.kind != "reference":
            job = bench.measure.client_consume_job(topic, KILOBYTE.value_bytes, records=records)
            bench.keep("consume", topic.server, "client", run_apart([job])[0])


def _both(bench: Bench, kind: Kind) -> None:
    """One writes, one reads what is written; the figure is the sum."""
    measure = bench.measure
    with bench.topic(kind) as topic:
        at = time.monotonic() + START_DELAY_SECONDS
        outcomes = run_apart(
            [
                measure.produce_job(topic, KILOBYTE, start_at=at),
                measure.consume_job(topic, KILOBYTE, end_offset=0, start_at=at),
            ]
        )
        bench.keep("both", topic.server, "raw", _sum_of(*outcomes))
    with bench.topic(kind) as topic:
        at = time.monotonic() + START_DELAY_SECONDS
        value_bytes = KILOBYTE.value_bytes
        outcomes = run_apart(
            [
                measure.client_produce_job(topic, value_bytes, start_at=at),
                measure.client_consume_job(topic, value_bytes, records=0, start_at=at),
            ]
        )
        bench.keep("both", topic.server, "client", _sum_of(*outcomes))


def _sum_of(produced: Outcome, consumed: Outcome) -> Outcome:
    """Two generators at once on one server, whose CPU seconds both have seen."""
    return Outcome(
        seconds=produced.seconds,
        requests=produced.requests + consumed.requests,
        records=produced.records + consumed.records,
        data_bytes=produced.data_bytes + consumed.data_bytes,
        total_records=produced.total_records,
        server_cpu_seconds=produced.server_cpu_seconds,
        generator_cpu_seconds=max(produced.generator_cpu_seconds, consumed.generator_cpu_seconds),
    )


def latency(bench: Bench) -> None:
    for line, is_flushed in (("latency.os", False), ("latency.flushed", True)):
        for kind in bench.fleet.everyone:
            with bench.topic(kind, is_flushed=is_flushed, is_heavy=False) as topic:
                outcome = bench.measure.paced(topic, SINGLE_KILOBYTE, rate=LATENCY_RATE)
                bench.keep(line, topic.server, "raw", outcome)
        for kind in bench.fleet.brokers:
            with bench.topic(kind, is_flushed=is_flushed, is_heavy=False) as topic:
                value_bytes = SINGLE_KILOBYTE.value_bytes
                outcome = bench.measure.client_produce(topic, value_bytes, rate=LATENCY_RATE)
                bench.keep(line, topic.server, "client", outcome)


def requests(bench: Bench) -> None:
    """Rounds go through all servers in turn, as with `produce`."""
    for _ in range(bench.scale.rounds):
        for kind in bench.fleet.everyone:
            with bench.fleet.server(kind) as server:
                outcome = bench.measure.requests(server, connections=REQUEST_CONNECTIONS)
                bench.keep("requests.smallest", server, "raw", outcome)
    for line, is_flushed in (("requests.produce", False), ("requests.flushed", True)):
        for _ in range(bench.scale.rounds):
            _one_record_requests(bench, line, is_flushed=is_flushed)
    for _ in range(bench.scale.rounds):
        _as_installed(bench)


def _one_record_requests(bench: Bench, line: str, *, is_flushed: bool) -> None:
    for kind in bench.fleet.everyone:
        with bench.topic(kind, is_flushed=is_flushed, is_heavy=False) as topic:
            outcome = bench.measure.produce(
                topic, SINGLE, connections=REQUEST_CONNECTIONS, in_flight=1
            )
            bench.keep(line, topic.server, "raw", outcome)


def _as_installed(bench: Bench) -> None:
    """A few producers of single records, everything at its default: this node flushes before it
    acknowledges, Apache Kafka does not flush."""
    for kind in bench.fleet.brokers:
        with bench.topic(kind, is_flushed=kind == "node", is_heavy=False) as topic:
            outcome = bench.measure.paced(
                topic, SINGLE, rate=INSTALLED_RATE, connections=INSTALLED_PRODUCERS
            )
            bench.keep("installed", topic.server, "raw", outcome)


def partitions(bench: Bench) -> None:
    """The same requests of 100 KB, to one partition or in turn to a thousand.

    Every partition has been written to before: creating its files is no part of the figure.
    """
    for count in (1, MANY_PARTITIONS):
        for kind in bench.fleet.brokers:
            with bench.topic(kind, partitions=count) as topic:
                bench.measure.produce(topic, SMALL_BATCH, requests=2 * MANY_PARTITIONS)
                for _ in range(bench.scale.rounds):
                    outcome = bench.measure.produce(topic, SMALL_BATCH, frames=MANY_PARTITIONS)
                    bench.keep(f"partitions.{count}", topic.server, "raw", outcome)


def connections(bench: Bench) -> None:
    """The same requests of 100 KB, all on one connection or one on each of five hundred."""
    for count, in_flight in ((1, 5), (MANY_CONNECTIONS, 1)):
        for kind in bench.fleet.brokers:
            with bench.topic(kind) as topic:
                outcome = bench.measure.produce(
                    topic, SMALL_BATCH, connections=count, in_flight=in_flight
                )
                bench.keep(f"connections.{count}", topic.server, "raw", outcome)


def start(bench: Bench) -> None:
    """From the start of the process to its `ready`; then the same with a full data directory."""
    if bench.fleet.is_external:
        return
    seconds = []
    for _ in range(bench.scale.starts):
        with bench.fleet.server("node") as server:
            seconds.append(server.seconds_to_ready)
    _keep_seconds(bench, "start.empty", "node", median(seconds))
    if "kafka" in bench.fleet.brokers:
        _keep_seconds(bench, "start.empty", "kafka", bench.fleet.kafka().seconds_to_ready)
    _start_loaded(bench)


def _start_loaded(bench: Bench) -> None:
    rounds = max(1, bench.scale.loaded_bytes // (SMALL_BATCH.data_bytes * MANY_PARTITIONS))
    with bench.fleet.empty_directory() as data_dir:
        command = node_command(data_dir, is_flushed=False)
        with (
            running("node", command, log_dir=bench.fleet.directory) as server,
            bench.measure.topic(server, partitions=MANY_PARTITIONS) as topic,
        ):
            bench.measure.produce(topic, SMALL_BATCH, requests=rounds * MANY_PARTITIONS)
        seconds = []
        for _ in range(bench.scale.starts):
            with running("node", command, log_dir=bench.fleet.directory) as server:
                seconds.append(server.seconds_to_ready)
                _expect_records(server, topic, rounds * MANY_PARTITIONS * SMALL_BATCH.records)
    _keep_seconds(bench, "start.loaded", "node", median(seconds))


def _expect_records(server: Server, topic: Topic, records: int) -> None:
    with Admin(server.host, server.port) as admin:
        found = admin.records_in(topic.name, topic.partitions)
    if found != records:
        raise WrongAnswer(f"{records} records before the stop, {found} after the start")


def _keep_seconds(bench: Bench, line: str, kind: Kind, seconds: float) -> None:
    bench.samples.add(SampleKey(line, kind, "raw"), {"seconds": seconds})
    bench.say(f"{line}: {kind}")


def memory(bench: Bench) -> None:
    """Resident memory of a node that has just become ready; of a loaded one with `produce`."""
    if bench.fleet.is_external:
        return
    for kind in bench.fleet.brokers:
        with bench.fleet.server(kind) as server:
            idle = {"rss_mb": rss_bytes(server.pid) / 1e6}
            bench.samples.add(SampleKey("memory.idle", kind, "raw"), idle)
            bench.say(f"memory.idle: {kind}")

"""The replicated lines: three copies of everything, acknowledged by all in sync.

A topic of three partitions, one led by each server; a generator for each leader, all at once. The
figures are sums: MB a second that were acknowledged, and CPU seconds of all three servers for a GB
of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from tidelog.bench.admin import Admin, WrongAnswer, check_produce_response
from tidelog.bench.cluster import COUNT, Cluster, running_kafkas, running_nodes
from tidelog.bench.figures import GB, Outcome
from tidelog.bench.frames import ACKS_ALL, KILOBYTE, Shape, produce_frames, record_batch
from tidelog.bench.jobs import ClientProduceJob, PumpJob
from tidelog.bench.lines import Bench
from tidelog.bench.load import run_apart
from tidelog.bench.measure import START_DELAY_SECONDS
from tidelog.bench.samples import SampleKey
from tidelog.bench.servers import Kind

CONNECTIONS = 2
IN_FLIGHT = 5
_WARM_UP_ROUNDS = 3
"""Of Kafka, before the first that counts: a JVM compiles what it runs often."""


def replicated(bench: Bench) -> None:
    """Not on a node that already runs: it would have to be three."""
    if bench.fleet.is_external:
        return
    for kind in bench.fleet.brokers:
        for is_flushed in (False, True):
            with _running(bench, kind, is_flushed=is_flushed) as cluster:
                _measure(bench, cluster, is_flushed=is_flushed)


@contextlib.contextmanager
def _running(bench: Bench, kind: Kind, *, is_flushed: bool) -> Iterator[Cluster]:
    with bench.fleet.empty_directory() as directory:
        if kind == "node":
            with running_nodes(directory, is_flushed=is_flushed) as cluster:
                yield cluster
            return
        assert bench.fleet.kafka_dir is not None, "no --kafka was given"
        with running_kafkas(bench.fleet.kafka_dir, directory) as cluster:
            yield cluster


def _measure(bench: Bench, cluster: Cluster, *, is_flushed: bool) -> None:
    line = "replicated.flushed" if is_flushed else "replicated.os"
    settings = next(iter(cluster.servers.values())).topic_settings(is_flushed=is_flushed)
    settings["min.insync.replicas"] = "2"
    warm_up = _WARM_UP_ROUNDS if cluster.kind == "kafka" else 0
    for number in range(warm_up + bench.scale.rounds):
        name = f"{line}-{number}"
        cluster.create_topic(name, partitions=COUNT, settings=settings)
        bench.freshen_memory()
        outcomes = _produce(bench, cluster, name, KILOBYTE)
        if number >= warm_up:
            bench.samples.add(SampleKey(line, cluster.kind, "raw"), _together(outcomes))
            bench.say(f"{line}: {cluster.kind}, raw")
    outcome = run_apart([_client_job(bench, cluster, name)])[0]
    figures = {"mb_per_s": outcome.bytes_per_second / 1e6}
    bench.samples.add(SampleKey(line, cluster.kind, "client"), figures)
    bench.say(f"{line}: {cluster.kind}, client")


def _produce(bench: Bench, cluster: Cluster, topic: str, shape: Shape) -> list[Outcome]:
    """Every leader at once; then what was acknowledged must be in the logs, and nothing more."""
    led: dict[int, list[int]] = {}
    for partition in cluster.await_whole(topic):
        led.setdefault(partition.leader_id, []).append(partition.partition_index)
    start_at = time.monotonic() + START_DELAY_SECONDS
    jobs = [_job(bench, cluster, topic, shape, leader=n, led=led[n], at=start_at) for n in led]
    outcomes = run_apart(jobs)
    for outcome in outcomes:
        check_produce_response(outcome.first_response)
    added = sum(_records_in(cluster, topic, leader, led[leader]) for leader in led)
    acknowledged = sum(outcome.total_records for outcome in outcomes)
    if added != acknowledged:
        raise WrongAnswer(f"{acknowledged} records were acknowledged, the logs got {added}")
    return outcomes


def _job(
    bench: Bench,
    cluster: Cluster,
    topic: str,
    shape: Shape,
    *,
    leader: int,
    led: list[int],
    at: float,
) -> PumpJob:
    server = cluster.servers[leader]
    batch = record_batch(shape, bench.measure.now_ms)
    frames = produce_frames(topic, led, batch=batch, acks=ACKS_ALL)
    return PumpJob(
        host=server.host,
        port=server.port,
        server_pid=server.pid,
        seconds=bench.measure.seconds,
        frames_path=bench.measure.written(f"replicated-{leader}", frames),
        connections=CONNECTIONS,
        in_flight=IN_FLIGHT,
        records_per_request=shape.records,
        bytes_per_request=shape.data_bytes,
        start_at=at,
    )


def _client_job(bench: Bench, cluster: Cluster, topic: str) -> ClientProduceJob:
    return ClientProduceJob(
        bootstrap=cluster.bootstrap,
        server_pid=0,
        seconds=bench.measure.seconds,
        topic=topic,
        partitions=COUNT,
        value_bytes=KILOBYTE.value_bytes,
        acks="all",
    )


def _records_in(cluster: Cluster, topic: str, leader: int, led: list[int]) -> int:
    server = cluster.servers[leader]
    with Admin(server.host, server.port) as admin:
        return admin.records_in(topic, indexes=led)


def _together(outcomes: list[Outcome]) -> dict[str, float]:
    """All servers in one figure. Every server leads something, so each one's CPU is in it once."""
    cpu_seconds = sum(outcome.server_cpu_seconds for outcome in outcomes)
    data_bytes = sum(outcome.data_bytes for outcome in outcomes)
    return {
        "mb_per_s": sum(outcome.bytes_per_second for outcome in outcomes) / 1e6,
        "cpu_s_per_gb": cpu_seconds / (data_bytes / GB),
        "generator_busy": max(outcome.generator_busy for outcome in outcomes),
    }

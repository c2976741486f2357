"""One measurement: a topic, a generator, a check of what the log holds afterwards."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.bench.admin import Admin, WrongAnswer, check_produce_response
from tidelog.bench.figures import Outcome
from tidelog.bench.frames import (
    ACKS_ALL,
    ACKS_LEADER,
    Shape,
    api_versions_frame,
    fetch_frame,
    produce_frames,
    record_batch,
)
from tidelog.bench.jobs import (
    ClientConsumeJob,
    ClientProduceJob,
    DrainJob,
    PaceJob,
    PumpJob,
    write_frames,
)
from tidelog.bench.load import run_apart
from tidelog.bench.servers import Server

PRODUCE_CONNECTIONS = 4
PRODUCE_IN_FLIGHT = 5
"""Kafka's producers keep up to five requests under way on a connection."""

FETCH_CONNECTIONS = 2
FETCH_BATCHES = 4
"""Batches of 1 MB per fetch: enough to make the request itself cheap."""

START_DELAY_SECONDS = 0.6
"""Generators that must begin together agree on a moment after all of them have been started."""

_topic_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of one measurement on one server."""

    server: Server
    name: str
    partitions: int
    is_flushed: bool

    @property
    def acks(self) -> int:
        return ACKS_ALL if self.is_flushed else ACKS_LEADER


@dataclass(frozen=True, slots=True)
class Measure:
    """How long each takes, and where frames are kept for the generators."""

    seconds: float
    directory: Path
    now_ms: int = field(default_factory=lambda: int(time.time() * 1000))

    @contextlib.contextmanager
    def topic(
        self,
        server: Server,
        *,
        partitions: int = 1,
        is_flushed: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> Iterator[Topic]:
        """A new topic; deleted afterwards where the server outlives the measurement."""
        name = f"bench-{os.getpid()}-{next(_topic_numbers)}"
        topic = Topic(server, name, partitions, is_flushed)
        if server.kind == "reference":
            yield topic
            return
        wanted = {**server.topic_settings(is_flushed=is_flushed), **(settings or {})}
        with Admin(server.host, server.port) as admin:
            admin.create_topic(name, partitions=partitions, settings=wanted)
        yield topic
        if server.kind == "kafka" or server.pid == 0:
            with Admin(server.host, server.port) as admin:
                admin.delete_topic(name)

    def produce(
        self,
        topic: Topic,
        shape: Shape,
        *,
        connections: int = PRODUCE_CONNECTIONS,
        in_flight: int = PRODUCE_IN_FLIGHT,
        requests: int = 0,
        frames: int = 1,
    ) -> Outcome:
        """Raw: prebuilt Produce requests, in turn to every partition."""
        job = self.produce_job(
            topic,
            shape,
            connections=connections,
            in_flight=in_flight,
            requests=requests,
            frames=frames,
        )
        return _checked(topic, job)

    def produce_job(
        self,
        topic: Topic,
        shape: Shape,
        *,
        connections: int = PRODUCE_CONNECTIONS,
        in_flight: int = PRODUCE_IN_FLIGHT,
        requests: int = 0,
        frames: int = 1,
        start_at: float = 0.0,
    ) -> PumpJob:
        """At least `frames` different buffers: to compare few partitions with many, both must send
        from equally much memory."""
        batch = record_batch(shape, self.now_ms)
        indexes = [index % topic.partitions for index in range(max(frames, topic.partitions))]
        built = produce_frames(topic.name, indexes, batch=batch, acks=topic.acks)
        return PumpJob(
            host=topic.server.host,
            port=topic.server.port,
            server_pid=topic.server.pid,
            seconds=self.seconds,
            frames_path=self.written("produce", built),
            connections=connections,
            in_flight=in_flight,
            records_per_request=shape.records,
            bytes_per_request=shape.data_bytes,
            requests=requests,
            start_at=start_at,
        )

    def consume_job(
        self, topic: Topic, shape: Shape, *, end_offset: int, start_at: float = 0.0
    ) -> DrainJob:
        """Raw: fetches over the log of `shape` batches; `end_offset` 0 follows its tail."""
        batch_bytes = len(record_batch(shape, self.now_ms))
        frame, position = fetch_frame(topic.name, max_bytes=FETCH_BATCHES * batch_bytes)
        return DrainJob(
            host=topic.server.host,
            port=topic.server.port,
            server_pid=topic.server.pid,
            seconds=self.seconds,
            frames_path=self.written("fetch", [frame]),
            offset_position=position,
            connections=FETCH_CONNECTIONS if end_offset else 1,
            batch_bytes=batch_bytes,
            batch_records=shape.records,
            batch_data_bytes=shape.data_bytes,
            end_offset=end_offset,
            start_at=start_at,
        )

    def requests(self, server: Server, *, connections: int) -> Outcome:
        """Raw: the smallest request, one under way per connection."""
        job = PumpJob(
            host=server.host,
            port=server.port,
            server_pid=server.pid,
            seconds=self.seconds,
            frames_path=self.written("requests", [api_versions_frame()]),
            connections=connections,
            in_flight=1,
            records_per_request=0,
            bytes_per_request=0,
        )
        return run_apart([job])[0]

    def paced(self, topic: Topic, shape: Shape, *, rate: int, connections: int = 1) -> Outcome:
        """Raw: one record a request, at fixed moments."""
        return _checked(topic, self.paced_job(topic, shape, rate=rate, connections=connections))

    def paced_job(self, topic: Topic, shape: Shape, *, rate: int, connections: int = 1) -> PaceJob:
        batch = record_batch(shape, self.now_ms)
        frames = produce_frames(topic.name, [0], batch=batch, acks=topic.acks)
        return PaceJob(
            host=topic.server.host,
            port=topic.server.port,
            server_pid=topic.server.pid,
            seconds=self.seconds,
            frames_path=self.written("paced", frames),
            rate=rate,
            connections=connections,
        )

    def client_produce(self, topic: Topic, value_bytes: int, *, rate: int = 0) -> Outcome:
        return _checked(topic, self.client_produce_job(topic, value_bytes, rate=rate))

    def client_produce_job(
        self, topic: Topic, value_bytes: int, *, rate: int = 0, start_at: float = 0.0
    ) -> ClientProduceJob:
        return ClientProduceJob(
            bootstrap=topic.server.bootstrap,
            server_pid=topic.server.pid,
            seconds=self.seconds,
            topic=topic.name,
            partitions=topic.partitions,
            value_bytes=value_bytes,
            acks="all" if topic.is_flushed else "1",
            rate=rate,
            start_at=start_at,
        )

    def client_consume_job(
        self, topic: Topic, value_bytes: int, *, records: int, start_at: float = 0.0
    ) -> ClientConsumeJob:
        return ClientConsumeJob(
            bootstrap=topic.server.bootstrap,
            server_pid=topic.server.pid,
            seconds=self.seconds,
            topic=topic.name,
            partitions=topic.partitions,
            value_bytes=value_bytes,
            records=records,
            start_at=start_at,
        )

    def written(self, name: str, frames: list[bytes]) -> str:
        """The path of a file that holds `frames` for a generator."""
        path = self.directory / f"{name}.frames"
        write_frames(path, frames)
        return str(path)


def _checked(topic: Topic, job: PumpJob | PaceJob | ClientProduceJob) -> Outcome:
    """Run it, then see that what was acknowledged is in the log, all of it and nothing more."""
    if topic.server.kind == "reference":
        return run_apart([job])[0]
    with Admin(topic.server.host, topic.server.port) as admin:
        before = admin.records_in(topic.name, topic.partitions)
        outcome = run_apart([job])[0]
        added = admin.records_in(topic.name, topic.partitions) - before
    if outcome.first_response:
        check_produce_response(outcome.first_response)
    if added != outcome.total_records:
        raise WrongAnswer(f"{outcome.total_records} records were acknowledged, the log got {added}")
    return outcome

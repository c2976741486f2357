"""Kafka before it is measured: a JVM compiles what it runs often, and only then is it itself."""

from __future__ import annotations

from dataclasses import replace

from tidelog.bench.frames import KILOBYTE, SINGLE
from tidelog.bench.lines import Bench
from tidelog.bench.load import run_apart

_ROUNDS = 3


def warm_up(bench: Bench) -> None:
    """Every kind of request the lines use, a few seconds of each; nothing is kept."""
    measure = replace(bench.measure, seconds=max(bench.measure.seconds, 1.0))
    server = bench.fleet.kafka()
    for _ in range(_ROUNDS):
        with measure.topic(server) as topic:
            produced = measure.produce(topic, KILOBYTE)
            job = measure.consume_job(topic, KILOBYTE, end_offset=produced.total_records)
            run_apart([job])
        with measure.topic(server) as topic:
            measure.produce(topic, SINGLE, connections=50, in_flight=1)
        measure.requests(server, connections=50)
        bench.say("warming up kafka")

"""The failover lines: how long a producer waits when the node it writes to is killed, or stopped.

One producer (librdkafka, idempotent, acks=all, its own defaults otherwise) sends a record every few
milliseconds to a partition with three copies. In each round the leader ends; the figure is the
longest time between two acknowledgements that follow each other. Then the node is started again,
and the next round begins when all copies are in sync.
"""

from __future__ import annotations

import signal
import threading
import time
from types import TracebackType
from typing import Any

from tidelog.bench.cluster import Cluster, running_nodes
from tidelog.bench.lines import Bench
from tidelog.bench.load import LoadFailed
from tidelog.bench.rdkafka import LibraryMissing
from tidelog.bench.samples import SampleKey

TOPIC = "failover"
_ENDS = {"failover.kill": signal.SIGKILL, "failover.stop": signal.SIGTERM}
_PAUSE_S = 0.005
_STEADY = 100
"""Acknowledgements in a row, before and after, that make a round."""

_PATIENCE_SECONDS = 60.0


def failover(bench: Bench) -> None:
    """Not on a node that already runs: nobody would start it again."""
    if bench.fleet.is_external:
        return
    with (
        bench.fleet.empty_directory() as directory,
        running_nodes(directory, is_flushed=True) as cluster,
    ):
        cluster.create_topic(TOPIC, partitions=1, settings={"min.insync.replicas": "2"})
        for line, number in _ENDS.items():
            gaps = []
            for _ in range(bench.scale.failovers):
                gaps.append(_gap_s(cluster, number))
                bench.say(line)
            key = SampleKey(line, "node", "raw")
            for gap in gaps:
                bench.samples.add(key, {"gap_s": gap})
            bench.samples.add(key, {"longest_gap_s": max(gaps)})


def _gap_s(cluster: Cluster, number: signal.Signals) -> float:
    with _Producing(cluster.bootstrap) as producing:
        producing.wait_for_steady_acks()
        leader = cluster.leader_of(TOPIC)
        producing.longest_gap_s = 0.0
        cluster.end(leader, number)
        producing.wait_for_ack_of_new_record()
        producing.wait_for_steady_acks()
        gap_s = producing.longest_gap_s
    cluster.restart(leader)
    cluster.await_whole(TOPIC)
    return gap_s


class _Producing:
    """A thread that sends without pause, and when it last heard of success."""

    def __init__(self, bootstrap: str) -> None:
        try:
            from confluent_kafka import Producer
        except ImportError:
            raise LibraryMissing("the failover lines need confluent-kafka") from None
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._sent = 0
        self._acknowledged = 0
        self._newest = -1
        self._last_ack_s = time.monotonic()
        self._error: str | None = None
        self.longest_gap_s = 0.0

    def __enter__(self) -> _Producing:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.flush(_PATIENCE_SECONDS)

    def wait_for_steady_acks(self) -> None:
        self._wait_until_beyond("_acknowledged", self._acknowledged + _STEADY)

    def wait_for_ack_of_new_record(self) -> None:
        """Of one that is sent from now on."""
        self._wait_until_beyond("_newest", self._sent)

    def _wait_until_beyond(self, counter: str, goal: int) -> None:
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while getattr(self, counter) < goal:
            if self._error is not None or time.monotonic() > give_up:
                raise LoadFailed(f"a producer did not get on: {self._error or 'no answer'}")
            time.sleep(0.01)

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._producer.produce(TOPIC, value=str(self._sent).encode(), on_delivery=self._heard)
            self._sent += 1
            self._producer.poll(_PAUSE_S)

    def _heard(self, error: Any, message: Any) -> None:
        if error is not None:
            self._error = str(error)
            return
        now_s = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_ack_s)
        self._last_ack_s = now_s
        self._acknowledged += 1
        self._newest = int(message.value())

"""A steady load that makes and discards everything a node can hold: segments that retention and
compaction remove, members of groups, topics, connections.

Each kind runs in a thread of its own until `Load` is closed. An error of one is kept and raised at
the end: a load that stands still would make any node look flat.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from itertools import count, cycle
from types import TracebackType

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_WAIT_S = 60.0
_BATCH = 50
_KEYS = 200
_VALUE = bytes(1024)

NODE_SETTINGS = {
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "clock.steady.ms": "0",
    "auto.create.topics.enable": "false",
}
"""So that what takes hours takes seconds. And every five minutes librdkafka asks for the metadata
of all topics that it has ever produced to, which would create again those that were deleted."""

_TOPICS = {
    "sized": {"retention.bytes": "1000000", "segment.bytes": "200000"},
    "timed": {"retention.ms": "5000", "segment.bytes": "200000", "segment.ms": "2000"},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.bytes": "200000",
        "min.cleanable.dirty.ratio": "0.1",
    },
}


class Load:
    """On the nodes at `bootstrap`, while the block lasts. `rounds` counts what each kind did."""

    def __init__(self, bootstrap: str, *, copies: int = 1) -> None:
        self._bootstrap = bootstrap
        self._copies = copies
        self._is_over = threading.Event()
        self._errors: list[BaseException] = []
        self._kinds = (self._produce, self._join_and_leave, self._make_topics, self._connect)
        self.rounds = {kind.__name__.strip("_"): 0 for kind in self._kinds}
        self._threads = [threading.Thread(target=self._run, args=(kind,)) for kind in self._kinds]

    def __enter__(self) -> Load:
        admin = self._admin()
        for name, config in _TOPICS.items():
            self._create(admin, name, config)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """The first error of any kind of load."""
        if self._errors:
            raise self._errors[0]

    def _run(self, kind: Callable[[], Callable[[int], None]]) -> None:
        try:
            one_round = kind()
            for number in count():
                if self._is_over.is_set():
                    return
                one_round(number)
                self.rounds[kind.__name__.strip("_")] += 1
        except BaseException as error:
            self._errors.append(error)
            raise

    def _pause(self, seconds: float) -> None:
        self._is_over.wait(seconds)

    # --- what is done, each a function of the number of the round ---------------------------------

    def _produce(self) -> Callable[[int], None]:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "log_level": 0}
        )

        def one_round(number: int) -> None:
            for topic in _TOPICS:
                for index in range(_BATCH):
                    key = b"%d" % ((number * _BATCH + index) % _KEYS)
                    producer.produce(topic, _VALUE, key, partition=0)
            if producer.flush(_WAIT_S):
                raise TimeoutError("a batch was not acknowledged in time")
            self._pause(0.2)

        return one_round

    def _join_and_leave(self) -> Callable[[int], None]:
        protocols = cycle(("classic", "consumer"))

        def one_round(number: int) -> None:
            protocol = next(protocols)
            options = {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"readers-{protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "latest",
                "log_level": 0,
            }
            members = [Consumer(options) for _ in range(2)]
            for member in members:
                member.subscribe(["sized", "timed"])
            for _ in range(10):
                for member in members:
                    member.consume(100, timeout=0.05)
            for member in members:
                member.close()

        return one_round

    def _make_topics(self) -> Callable[[int], None]:
        admin = self._admin()
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0})

        def one_round(number: int) -> None:
            name = f"passing-{number}"
            self._create(admin, name, {})
            producer.produce(name, _VALUE, partition=0)
            if producer.flush(_WAIT_S):
                raise TimeoutError(f"a record for {name} was not acknowledged in time")
            admin.delete_topics([name])[name].result(_WAIT_S)
            self._pause(0.3)

        return one_round

    def _connect(self) -> Callable[[int], None]:
        addresses = [address.rsplit(":", 1) for address in self._bootstrap.split(",")]

        def one_round(number: int) -> None:
            opened = [
                socket.create_connection((host, int(port)), timeout=_WAIT_S)
                for host, port in addresses
                for _ in range(5)
            ]
            for sock in opened:
                sock.close()
            self._pause(0.2)

        return one_round

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def _create(self, admin: AdminClient, name: str, config: dict[str, str]) -> None:
        new = NewTopic(name, 1, self._copies, config=config)
        try:
            admin.create_topics([new], request_timeout=_WAIT_S)[name].result(_WAIT_S)
        except KafkaException as error:
            raise RuntimeError(f"topic {name} could not be created: {error}") from error

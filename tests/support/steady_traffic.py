"""A producer that sends numbered records without pause, and what became of each: for tests that
break something meanwhile."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.support.eventually import PATIENCE_S, check_time

_PAUSE_S = 0.01
"""A hundred records a second: enough to be caught in the middle, little enough for CI."""


class SteadyTraffic:
    """In a thread of its own, with an idempotent producer that retries as long as it must."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "batch.num.messages": 100,
                "log_level": 0,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
                "message.timeout.ms": int(PATIENCE_S * 1000),
            }
        )
        self._topic = topic
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._is_over = threading.Event()
        self.acknowledged: dict[int, tuple[int, int] | None] = {}
        """Partition and offset by number; none where librdkafka says only that it was written: the
        answer was lost, and a later one implied it."""
        self.errors: list[str] = []
        self.sent = 0
        self.longest_gap_s = 0.0
        self._last_ack_s = time.monotonic()

    def wait_for_progress(self, count: int = 50) -> None:
        """Until so many more records are acknowledged."""
        goal = len(self.acknowledged) + count
        deadline = time.monotonic() + PATIENCE_S
        while len(self.acknowledged) < goal:
            check_time(deadline, f"no progress: {len(self.acknowledged)} of {goal}")
            assert not self.errors, self.errors[:3]
            time.sleep(0.02)

    def wait_for_progress_on_all(self, partitions: int, count: int = 20) -> None:
        """Until so many more records are acknowledged on each of the partitions."""
        before = self._counts(partitions)
        deadline = time.monotonic() + PATIENCE_S
        while any(
            now < then + count for now, then in zip(self._counts(partitions), before, strict=True)
        ):
            check_time(deadline, f"{before}, then {self._counts(partitions)}")
            assert not self.errors, self.errors[:3]
            time.sleep(0.05)

    @property
    def placed(self) -> dict[int, tuple[int, int]]:
        """The acknowledged records of which it is known where they are."""
        return {n: at for n, at in list(self.acknowledged.items()) if at is not None}

    def _counts(self, partitions: int) -> list[int]:
        places = [partition for partition, _ in self.placed.values()]
        return [places.count(partition) for partition in range(partitions)]

    def __enter__(self) -> SteadyTraffic:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join(2 * PATIENCE_S)

    def _run(self) -> None:
        while not self._is_over.is_set():
            number = self.sent
            self.sent += 1
            self._producer.produce(
                self._topic, value=str(number).encode(), on_delivery=self._delivered
            )
            self._producer.poll(0)
            time.sleep(_PAUSE_S)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        now = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last_ack_s)
        self._last_ack_s = now
        is_placed = message.offset() is not None
        self.acknowledged[_number(message)] = _place(message) if is_placed else None


def _number(message: Message) -> int:
    value = message.value()
    assert value is not None
    return int(value)


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def read_all(bootstrap: str, topic: str, partitions: int) -> dict[int, list[tuple[int, int]]]:
    """Every record of the topic: where each number was found."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: dict[int, list[tuple[int, int]]] = {}
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ended) < partitions:
        check_time(deadline, f"only {sorted(ended)} could be read to their ends")
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.setdefault(_number(message), []).append(_place(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(_place(message)[0])
        elif not error.retriable():
            raise KafkaException(error)
    consumer.close()
    return found


def check_nothing_lost_or_doubled(
    traffic: SteadyTraffic, bootstrap: str, topic: str, n: int
) -> dict[int, list[tuple[int, int]]]:
    """Every acknowledged record is where it was said to be, once; no other is there. Gives where
    each is."""
    found = read_all(bootstrap, topic, n)
    lost = [
        number
        for number, at in traffic.acknowledged.items()
        if (number not in found if at is None else at not in found.get(number, []))
    ]
    assert not lost, f"{len(lost)} of {len(traffic.acknowledged)} are lost: {lost[:10]}"
    doubled = {number: at for number, at in found.items() if len(at) > 1}
    assert not doubled, f"{len(doubled)} are there twice: {list(doubled.items())[:5]}"
    assert all(0 <= number < traffic.sent for number in found)
    return found

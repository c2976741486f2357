"""A member of a consumer group that reads all the time, and what it has read: for tests that break
something meanwhile."""

from __future__ import annotations

import threading
from types import TracebackType

from confluent_kafka import Consumer
from tests.support.eventually import eventually


class GroupReader:
    """In a thread of its own. It commits by itself, and may read records again after a fault."""

    def __init__(self, bootstrap: str, topic: str, *, group: str = "readers") -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                "auto.commit.interval.ms": 200,
                "session.timeout.ms": 20_000,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._consumer.subscribe([topic])
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.read: dict[tuple[int, int], int] = {}
        """Which number lay where: partition and offset."""
        self.contradictions: list[str] = []

    def __enter__(self) -> GroupReader:
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
        self._consumer.close()

    def wait_for(self, acknowledged: dict[int, tuple[int, int]]) -> None:
        """Until each of them was read where it was said to be."""
        eventually(
            lambda: all(self.read.get(at) == number for number, at in acknowledged.items()),
            "all that was acknowledged, read by the group",
        )

    def _run(self) -> None:
        while not self._is_over.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            value, partition, offset = message.value(), message.partition(), message.offset()
            assert value is not None
            assert partition is not None
            assert offset is not None
            known = self.read.setdefault((partition, offset), int(value))
            if known != int(value):
                self.contradictions.append(f"{partition}/{offset}: {known}, then {int(value)}")

"""Sending records: idempotent, acknowledged by all, in order, unless asked otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import confluent_kafka

from tidelog.client.connection import Bootstrap, connection_to
from tidelog.client.errors import ClientError, not_delivered
from tidelog.client.message import Headers, Receipt
from tidelog.client.outbox import ANY_PARTITION, Outbox

__all__ = ["ANY_PARTITION", "Deliveries", "Delivery", "Headers", "Producer"]

_POLL_S = 0.1


@dataclass(slots=True)
class Deliveries:
    """What became of the records sent so far."""

    acknowledged: int = 0
    failed: int = 0
    first_error: ClientError | None = None
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First and last acknowledged offset by partition; empty for acks=0, which tells none."""

    def note_offset(self, partition: int, offset: int) -> None:
        if offset < 0:
            return
        first, last = self.offsets.get(partition, (offset, offset))
        self.offsets[partition] = (min(first, offset), max(last, offset))


class Delivery:
    """The fate of one record: known at once never, soon mostly."""

    __slots__ = ("_error", "_producer", "_receipt")

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._receipt: Receipt | None = None
        self._error: ClientError | None = None

    def done(self) -> bool:
        """Whether it is known."""
        return self._receipt is not None or self._error is not None

    def result(self, timeout_s: float | None = None) -> Receipt:
        """Wait for the acknowledgement. A `ClientError` says why there is none; `TimeoutError`
        that there is no answer yet."""
        self._producer.wait_for(self.done, timeout_s)
        if self._error is not None:
            self._producer.forgive()
            raise self._error
        assert self._receipt is not None
        return self._receipt

    def arrived(self, receipt: Receipt | None, error: ClientError | None) -> None:
        """For the producer to call, once."""
        self._receipt, self._error = receipt, error
        self._producer.count(receipt, error)


class Producer:
    """Sends in the background.

    ::

        with Producer() as producer:
            producer.send("orders", "2 apples", key="alice")

    At the end of the block everything is acknowledged, or what was not is raised.
    """

    def __init__(
        self,
        bootstrap: Bootstrap = None,
        *,
        acks: str = "all",
        compression: str = "none",
        linger_ms: int = 5,
        delivery_timeout_ms: int = 30_000,
    ) -> None:
        self.deliveries = Deliveries()
        self._unforgiven = 0
        self._outbox = Outbox(
            connection_to(bootstrap),
            acks=acks,
            compression=compression,
            linger_ms=linger_ms,
            delivery_timeout_ms=delivery_timeout_ms,
        )

    @property
    def client(self) -> confluent_kafka.Producer:
        """librdkafka's producer, for what this class does not have."""
        return self._outbox.client

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Queue one record. Waits only while the queue is full, which is how backpressure feels."""
        delivery = Delivery(self)
        while not self._outbox.offer(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            arrived=delivery.arrived,
        ):
            self._outbox.serve(_POLL_S)
        self._outbox.serve(0)
        return delivery

    def flush(self, on_wait: Callable[[], None] | None = None) -> Deliveries:
        """Wait until nothing is outstanding; `on_wait` is called ten times a second meanwhile."""
        while not self._outbox.flush(_POLL_S):
            if on_wait is not None:
                on_wait()
        return self.deliveries

    def close(self) -> None:
        """Wait for everything; a `ClientError` if something failed that nobody has heard of."""
        self.flush()
        count, error = self._unforgiven, self.deliveries.first_error
        if count and error is not None:
            self._unforgiven = 0
            raise not_delivered(error, count)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.flush()

    # --- for deliveries -----------------------------------------------------------------------

    def wait_for(self, is_done: Callable[[], bool], timeout_s: float | None) -> None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not is_done():
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("the record is not acknowledged yet")
            self._outbox.serve(_POLL_S)

    def forgive(self) -> None:
        """The caller has been told of a failure: `close` need not."""
        self._unforgiven = max(0, self._unforgiven - 1)

    def count(self, receipt: Receipt | None, error: ClientError | None) -> None:
        if receipt is not None:
            self.deliveries.acknowledged += 1
            self.deliveries.note_offset(receipt.partition, receipt.offset)
            return
        self.deliveries.failed += 1
        self._unforgiven += 1
        if self.deliveries.first_error is None:
            self.deliveries.first_error = error

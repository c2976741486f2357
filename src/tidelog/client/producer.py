"""Sending records: idempotent, acknowledged by all, in order, unless asked otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError, explained, explained_exception

Headers = Sequence[tuple[str, bytes]]

ANY_PARTITION = -1
"""The key's hash chooses, as in Kafka's own client; without a key, chance does, batch by batch."""

LARGEST_REQUEST_BYTES = 100_000_000
"""So large that the topic's own limit decides what is too large, not this client."""


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


class Producer:
    """Sends in the background; `flush` waits until everything is acknowledged or failed."""

    def __init__(
        self,
        connection: Connection,
        *,
        acks: str = "all",
        compression: str = "none",
        linger_ms: int = 5,
        delivery_timeout_ms: int = 30_000,
    ) -> None:
        connection.probe()
        self.deliveries = Deliveries()
        self._connection = connection
        self._client = confluent_kafka.Producer(
            connection.configuration(
                acks=acks,
                enable_idempotence=acks == "all",
                compression_type=compression,
                linger_ms=linger_ms,
                message_timeout_ms=delivery_timeout_ms,
                message_max_bytes=LARGEST_REQUEST_BYTES,
                partitioner="murmur2_random",
                topic_metadata_propagation_max_ms=5_000,
            )
        )

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int = ANY_PARTITION,
        on_acknowledged: Callable[[Message], None] | None = None,
    ) -> None:
        """Queue one record. Waits only while the queue is full, which is how backpressure feels."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._delivered(error, message)
            if error is None and on_acknowledged is not None:
                on_acknowledged(message)

        while True:
            try:
                self._client.produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=delivered,
                    headers=list(headers) or None,
                )
            except BufferError:
                self._client.poll(0.1)
            except KafkaException as exception:
                raise explained_exception(
                    exception, bootstrap=self._connection.bootstrap, topic=topic
                ) from None
            else:
                self._client.poll(0)
                return

    def flush(self, on_wait: Callable[[], None] | None = None) -> Deliveries:
        """Wait until nothing is outstanding; `on_wait` is called ten times a second meanwhile."""
        while self._client.flush(0.1):
            if on_wait is not None:
                on_wait()
        return self.deliveries

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.deliveries.acknowledged += 1
            self.deliveries.note_offset(message.partition() or 0, message.offset() or 0)
            return
        self.deliveries.failed += 1
        if self.deliveries.first_error is None:
            self.deliveries.first_error = explained(
                error, bootstrap=self._connection.bootstrap, topic=message.topic() or ""
            )

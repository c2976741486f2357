"""librdkafka's producer, told what is right here; what both forms of our `Producer` share."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError, explained, explained_exception
from tidelog.client.message import Headers, Receipt, as_bytes

ANY_PARTITION = -1
"""The key's hash chooses, as in Kafka's own client; without a key, chance does, batch by batch."""

LARGEST_REQUEST_BYTES = 100_000_000
"""So large that the topic's own limit decides what is too large, not this client."""

Arrived = Callable[[Receipt | None, ClientError | None], None]
"""Told what became of a record: a receipt or an error."""


class Outbox:
    """Records on their way. Never waits, but where it says so."""

    def __init__(
        self,
        connection: Connection,
        *,
        acks: str,
        compression: str,
        linger_ms: int,
        delivery_timeout_ms: int,
    ) -> None:
        connection.probe()
        self._bootstrap = connection.bootstrap
        self.client = confluent_kafka.Producer(
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

    def offer(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        arrived: Arrived,
    ) -> bool:
        """Queue one record; False if the queue is full. `arrived` is called within `serve`."""
        pairs = [(name, as_bytes(content)) for name, content in headers]

        def report(error: KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is None:
                arrived(_receipt(message), None)
            else:
                arrived(None, explained(error, bootstrap=self._bootstrap, topic=topic))

        try:
            self.client.produce(
                topic,
                as_bytes(value),
                as_bytes(key),
                ANY_PARTITION if partition is None else partition,
                on_delivery=report,
                timestamp=timestamp_ms or 0,
                headers=pairs or None,  # type: ignore[arg-type]
            )
        except BufferError:
            return False
        except KafkaException as exception:
            raise explained_exception(exception, bootstrap=self._bootstrap, topic=topic) from None
        return True

    def serve(self, timeout_s: float) -> None:
        """Call who waits for an answer that has come, or comes in this time."""
        self.client.poll(timeout_s)

    def flush(self, timeout_s: float) -> bool:
        """Send what lingers, and serve; True if nothing is outstanding any more."""
        return not self.client.flush(timeout_s)


def _receipt(message: confluent_kafka.Message) -> Receipt:
    """An offset or time that is not known is negative in librdkafka, by various amounts."""
    return Receipt(
        message.topic() or "",
        message.partition() or 0,
        max(-1, -1 if (offset := message.offset()) is None else offset),
        max(-1, message.timestamp()[1]),
    )

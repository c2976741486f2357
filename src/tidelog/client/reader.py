"""Reading records from given offsets of given partitions; no group, nothing committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import confluent_kafka
from confluent_kafka import KafkaError

from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError, explained
from tidelog.client.message import Message, as_bytes
from tidelog.model.ids import TopicPartition

UNUSED_GROUP = "tidelog-no-group"
"""librdkafka wants a group's name even of a consumer that joins none."""


class Reader:
    """Reads what it is assigned, in the order of each partition."""

    def __init__(
        self,
        connection: Connection,
        *,
        starts: Mapping[TopicPartition, int],
        on_broker_lost: Callable[[], None] | None = None,
    ) -> None:
        """`on_broker_lost` is called, within `poll`, when no broker answers any more. There is
        nothing to do but to tell: reading goes on by itself when one comes back."""
        connection.probe()
        self._connection = connection
        self._on_broker_lost = on_broker_lost
        self._at_end: dict[TopicPartition, bool] = dict.fromkeys(starts, False)
        self._client = confluent_kafka.Consumer(
            {"error_cb": self._on_error}
            | connection.configuration(
                group_id=UNUSED_GROUP,
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                auto_offset_reset="error",
                check_crcs=True,
                fetch_wait_max_ms=100,
            )
        )
        self._client.assign(
            [
                confluent_kafka.TopicPartition(topic, partition, offset)
                for (topic, partition), offset in starts.items()
            ]
        )

    @property
    def is_at_end(self) -> bool:
        """Nothing more to read in any partition, when last asked."""
        return all(self._at_end.values())

    def poll(self, *, max_records: int = 1000, timeout_s: float = 0.1) -> list[Message]:
        """Up to `max_records` records; none if none came in time."""
        records = []
        for message in self._client.consume(max_records, timeout_s):
            error = message.error()
            if error is None:
                records.append(self._received(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end[_partition_of(message)] = True
            elif not error.retriable():
                raise self._refused(error, message)
        return records

    def close(self) -> None:
        self._client.close()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._on_broker_lost is not None:
            self._on_broker_lost()

    def _received(self, received: confluent_kafka.Message) -> Message:
        message = message_of(received)
        self._at_end[TopicPartition(message.topic, message.partition)] = False
        return message

    def _refused(self, error: KafkaError, message: confluent_kafka.Message) -> ClientError:
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            return ClientError(
                f"offset {message.offset()} is not in the log of {_partition_of(message)}: "
                "see `tidelog topic describe` for where it begins and ends"
            )
        return explained(error, bootstrap=self._connection.bootstrap, topic=message.topic() or "")


def _partition_of(message: confluent_kafka.Message) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)


def message_of(received: confluent_kafka.Message) -> Message:
    """librdkafka's message as ours."""
    headers = received.headers() or []
    return Message(
        received.topic() or "",
        received.partition() or 0,
        received.offset() or 0,
        as_bytes(received.key()),
        as_bytes(received.value()),
        [(name, as_bytes(value)) for name, value in _pairs(headers)],
        received.timestamp()[1],
    )


def _pairs(headers: object) -> list[tuple[str, str | bytes | None]]:
    return list(headers.items()) if isinstance(headers, dict) else headers  # type: ignore[return-value]

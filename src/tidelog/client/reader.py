"""Reading records from given offsets of given partitions; no group, nothing committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import confluent_kafka
from confluent_kafka import KafkaError

from tidelog.client.connection import Connection
from tidelog.client.damage import DamageWatch, OnDamage
from tidelog.client.errors import ClientError, explained
from tidelog.client.message import Message
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
        on_damage: OnDamage | None = None,
    ) -> None:
        """`on_broker_lost` is called, within `poll`, when no broker answers any more. There is
        nothing to do but to tell: reading goes on by itself when one comes back. With `on_damage`,
        batches that can't be read are passed over, and it is told of each; else `poll` raises
        `DamagedBatch`."""
        connection.probe()
        self._connection = connection
        self._on_broker_lost = on_broker_lost
        self._at_end: dict[TopicPartition, bool] = dict.fromkeys(starts, False)
        self._trouble: ClientError | None = None
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
        self._watch = DamageWatch(self._client, connection, starts=starts, on_damage=on_damage)

    @property
    def is_at_end(self) -> bool:
        """Nothing more to read in any partition, when last asked."""
        return all(self._at_end.values())

    def poll(self, *, max_records: int = 1000, timeout_s: float = 0.1) -> list[Message]:
        """Up to `max_records` records; none if none came in time. What came before an error is
        returned first, and the error is raised by the next call."""
        if self._trouble is not None:
            raise self._trouble
        records: list[Message] = []
        for message in self._client.consume(max_records, timeout_s):
            error = message.error()
            try:
                if error is not None:
                    self._on_partition_error(error, message)
                elif (received := self._received(message)) is not None:
                    records.append(received)
            except ClientError as trouble:
                self._trouble = trouble
                break
        if self._trouble is not None and not records:
            raise self._trouble
        self._watch.look(is_silent=not records)
        return records

    def _on_partition_error(self, error: KafkaError, message: confluent_kafka.Message) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._reached_end(_partition_of(message), message.offset() or 0)
        elif not self._watch.explains(error, message) and not error.retriable():
            raise self._refused(error, message)

    def close(self) -> None:
        self._client.close()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._on_broker_lost is not None:
            self._on_broker_lost()

    def _received(self, received: confluent_kafka.Message) -> Message | None:
        message = self._watch.opened(received)
        if message is None:
            return None
        self._at_end[TopicPartition(message.topic, message.partition)] = False
        return message

    def _reached_end(self, place: TopicPartition, offset: int) -> None:
        self._at_end[place] = True
        self._watch.received(*place, offset)

    def _refused(self, error: KafkaError, message: confluent_kafka.Message) -> ClientError:
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            return ClientError(
                f"offset {message.offset()} is not in the log of {_partition_of(message)}: "
                "see `tidelog topic describe` for where it begins and ends"
            )
        return explained(error, bootstrap=self._connection.bootstrap, topic=message.topic() or "")


def _partition_of(message: confluent_kafka.Message) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)

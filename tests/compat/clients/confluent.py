"""confluent-kafka: librdkafka, the C client behind most languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.compat.clients.message import PATIENCE_S, Deadline, Message

NO_GROUP = {"group.id": "unused", "enable.auto.commit": False}
"""The library insists on a group id; without auto-commit it is never used in assign mode."""

QUIET = {"log_level": 0}


class ConfluentKafka:
    name = "confluent-kafka"
    codecs: Sequence[str] = ("none", "gzip", "snappy", "lz4", "zstd")
    sets_timestamps = True

    def write(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        producer = make_producer(bootstrap, {"compression.type": codec, **(options or {})})
        deliveries = Deliveries()
        for message in messages:
            send(producer, topic, message, deliveries)
        assert producer.flush(PATIENCE_S) == 0
        deliveries.expect(len(messages))

    def read(
        self,
        bootstrap: str,
        topic: str,
        count: int,
        *,
        partitions: Sequence[int] = (0,),
        options: Mapping[str, Any] | None = None,
    ) -> list[Message]:
        with assigned(bootstrap, topic, partitions, options=options) as consumer:
            return take(consumer, count)


class Deliveries:
    """What became of each message, in the order in which the client learned it."""

    def __init__(self) -> None:
        self.delivered: list[Message] = []
        self.errors: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.delivered.append(as_message(message))
        else:
            self.errors.append(error)

    def expect(self, count: int) -> None:
        assert self.errors == []
        assert len(self.delivered) == count


def make_producer(bootstrap: str, options: Mapping[str, Any] | None = None) -> Producer:
    return Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all", **QUIET, **(options or {})}
    )


def send(producer: Producer, topic: str, message: Message, deliveries: Deliveries) -> None:
    """Into the producer's buffer; while that is full, serve deliveries."""
    deadline = Deadline(f"room in the buffer of a producer for {topic}")
    extra: dict[str, Any] = {}
    if message.timestamp is not None:
        extra["timestamp"] = message.timestamp
    while True:
        try:
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers) or None,
                partition=message.partition,
                on_delivery=deliveries,
                **extra,
            )
        except BufferError:
            deadline.check()
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


class assigned:
    """A consumer of the given partitions, from the beginning unless told otherwise."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: Sequence[int] = (0,),
        *,
        offset: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._consumer = make_consumer(bootstrap, options)
        self._consumer.assign([TopicPartition(topic, each, offset) for each in partitions])

    def __enter__(self) -> Consumer:
        return self._consumer

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def make_consumer(bootstrap: str, options: Mapping[str, Any] | None = None) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, **NO_GROUP, **QUIET, **(options or {})})


def take(consumer: Consumer, count: int) -> list[Message]:
    """The next `count` messages; an error that the client reports as a message is raised."""
    messages: list[Message] = []
    deadline = Deadline("confluent-kafka")
    while len(messages) < count:
        deadline.check(f"after {len(messages)} of {count}")
        for raw in consumer.consume(min(1000, count - len(messages)), timeout=1.0):
            error = raw.error()
            if error is not None:
                raise KafkaException(error)
            messages.append(as_message(raw))
    return messages


def as_message(raw: Any) -> Message:
    return Message(
        value=raw.value(),
        key=raw.key(),
        headers=tuple((name, value) for name, value in raw.headers() or ()),
        timestamp=raw.timestamp()[1],
        partition=raw.partition(),
        offset=raw.offset(),
    )

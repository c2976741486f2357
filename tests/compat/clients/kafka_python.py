"""kafka-python: pure Python, threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import kafka
from kafka import codec as installed
from tests.compat.clients.message import PATIENCE_S, Deadline, Message

Record = Any


def _codecs() -> Iterator[str]:
    """Beyond gzip it needs packages of their own: python-snappy, lz4, zstandard."""
    yield from ("none", "gzip")
    for name in ("snappy", "lz4", "zstd"):
        if getattr(installed, f"has_{name}")():
            yield name


class KafkaPython:
    name = "kafka-python"
    codecs: Sequence[str] = tuple(_codecs())
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
        compression = None if codec == "none" else codec
        options = {"compression_type": compression, "linger_ms": 5, **(options or {})}
        with closing(make_producer(bootstrap, options)) as producer:
            futures = [send(producer, topic, message) for message in messages]
            producer.flush(PATIENCE_S)
            for future in futures:
                future.get(PATIENCE_S)

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


def make_producer(bootstrap: str, options: Mapping[str, Any] | None = None) -> Any:
    return kafka.KafkaProducer(bootstrap_servers=bootstrap, **(options or {}))


def send(producer: Any, topic: str, message: Message) -> Any:
    return producer.send(
        topic,
        value=message.value,
        key=message.key,
        headers=list(message.headers),
        partition=message.partition,
        timestamp_ms=message.timestamp,
    )


@contextmanager
def assigned(
    bootstrap: str,
    topic: str,
    partitions: Sequence[int] = (0,),
    *,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """A consumer of the given partitions, from the beginning unless the options say otherwise."""
    defaults = {"group_id": None, "auto_offset_reset": "earliest"}
    settings = {**defaults, **(options or {})}
    with closing(kafka.KafkaConsumer(bootstrap_servers=bootstrap, **settings)) as consumer:
        consumer.assign([kafka.TopicPartition(topic, each) for each in partitions])
        yield consumer


def take(consumer: Any, count: int) -> list[Message]:
    messages: list[Message] = []
    deadline = Deadline("kafka-python")
    while len(messages) < count:
        deadline.check(f"after {len(messages)} of {count}")
        polled = consumer.poll(timeout_ms=1000, max_records=count - len(messages))
        messages.extend(map(as_message, itertools.chain.from_iterable(polled.values())))
    return messages


def as_message(record: Record) -> Message:
    """What kafka-python and aiokafka both call a `ConsumerRecord`."""
    return Message(
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        timestamp=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )

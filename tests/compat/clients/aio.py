"""aiokafka: asyncio, and the old, non-flexible versions of every API."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
from tests.compat.clients.kafka_python import as_message
from tests.compat.clients.message import PATIENCE_S, Deadline, Message


class Aiokafka:
    name = "aiokafka"
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
        compression = None if codec == "none" else codec
        options = {"compression_type": compression, "linger_ms": 5, **(options or {})}

        async def run() -> None:
            async with producing(bootstrap, options) as producer:
                futures = [await send(producer, topic, message) for message in messages]
                async with asyncio.timeout(PATIENCE_S):
                    await asyncio.gather(*futures)

        asyncio.run(run())

    def read(
        self,
        bootstrap: str,
        topic: str,
        count: int,
        *,
        partitions: Sequence[int] = (0,),
        options: Mapping[str, Any] | None = None,
    ) -> list[Message]:
        async def run() -> list[Message]:
            async with assigned(bootstrap, topic, partitions, options=options) as consumer:
                return await take(consumer, count)

        return asyncio.run(run())


@asynccontextmanager
async def producing(bootstrap: str, options: Mapping[str, Any] | None = None) -> AsyncIterator[Any]:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **(options or {}))
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def send(producer: Any, topic: str, message: Message) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = await producer.send(
        topic,
        value=message.value,
        key=message.key,
        headers=list(message.headers),
        partition=message.partition,
        timestamp_ms=message.timestamp,
    )
    return future


@asynccontextmanager
async def assigned(
    bootstrap: str,
    topic: str,
    partitions: Sequence[int] = (0,),
    *,
    options: Mapping[str, Any] | None = None,
) -> AsyncIterator[Any]:
    """A consumer of the given partitions, from the beginning unless the options say otherwise."""
    settings = {"auto_offset_reset": "earliest", **(options or {})}
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, **settings)
    await consumer.start()
    try:
        consumer.assign([aiokafka.TopicPartition(topic, each) for each in partitions])
        yield consumer
    finally:
        await consumer.stop()


async def take(consumer: Any, count: int) -> list[Message]:
    messages: list[Message] = []
    deadline = Deadline("aiokafka")
    while len(messages) < count:
        deadline.check(f"after {len(messages)} of {count}")
        polled = await consumer.getmany(timeout_ms=1000, max_records=count - len(messages))
        messages.extend(map(as_message, itertools.chain.from_iterable(polled.values())))
    return messages

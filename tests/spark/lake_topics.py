"""Topics to archive, and what a plain consumer reads of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import confluent_kafka
from pyspark.sql import DataFrame

from tidelog.client import Admin, Connection, Reader

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record wherever it is read."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers


class Sent(NamedTuple):
    """A record to produce."""

    key: bytes | None
    value: bytes | None
    partition: int = 0
    timestamp_ms: int = 1_700_000_000_000
    headers: Headers = ()


def admin_of(bootstrap: str) -> Admin:
    return Admin(Connection(bootstrap))


def create_topic(bootstrap: str, name: str, *, partitions: int) -> None:
    """Records of 2023 must stay: retention would delete them whenever a test is slow enough."""
    settings = {"retention.ms": "-1"}
    admin_of(bootstrap).create_topic(name, partitions=partitions, settings=settings)


def produce(bootstrap: str, topic: str, records: Iterable[Sent], *, codec: str = "none") -> None:
    """All acknowledged when this returns."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 20,
            "log_level": 0,
        }
    )
    failures: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    for sent in records:
        producer.produce(
            topic,
            key=sent.key,
            value=sent.value,
            partition=sent.partition,
            timestamp=sent.timestamp_ms,
            headers=list(sent.headers),
            on_delivery=delivered,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def numbered(first: int, count: int, *, partitions: int = 3) -> list[Sent]:
    """Each with a value of its own, in turn over the partitions."""
    return [
        Sent(
            key=f"key-{number % 50}".encode(),
            value=f"value-{number}".encode(),
            partition=number % partitions,
            timestamp_ms=1_700_000_000_000 + number,
        )
        for number in range(first, first + count)
    ]


def consumed(bootstrap: str, topic: str) -> list[Record]:
    """All records of a topic, as a plain consumer reads them."""
    connection = Connection(bootstrap)
    admin = Admin(connection)
    spans = admin.offsets(admin.topic(topic).topic_partitions)
    reader = Reader(connection, starts={place: span.start for place, span in spans.items()})
    found: list[Record] = []
    try:
        while not reader.is_at_end:
            for m in reader.poll():
                headers = tuple((key, value) for key, value in m.headers)
                found.append(Record(m.partition, m.offset, m.key, m.value, m.timestamp_ms, headers))
    finally:
        reader.close()
    return sorted(found)


def rows_of(frame: DataFrame) -> list[Record]:
    """All rows of a table with headers, as records."""
    found = []
    for row in frame.collect():
        headers = tuple((each["key"], _bytes(each["value"])) for each in row["headers"] or ())
        found.append(
            Record(
                row["partition"],
                row["offset"],
                _bytes(row["key"]),
                _bytes(row["value"]),
                round(row["timestamp"].timestamp() * 1000),
                headers,
            )
        )
    return sorted(found)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)

"""What one client writes, every client reads: the same bytes in the same order, by every codec."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.compat.clients.confluent import ConfluentKafka
from tests.compat.clients.everyone import CLIENTS, CODEC_NUMBERS
from tests.compat.clients.message import Client, Message
from tests.compat.conftest import MakeTopic
from tests.compat.stored import stored_batches
from tests.support.node_process import RunningNode

NOON = 1_700_000_000_000
LONG = b"the same words again and again " * 40

SAMPLES = (
    Message(LONG),
    Message(b"with a key", b"key"),
    Message(LONG, b"key again"),
    Message(None, b"a tombstone"),
    Message(b"", b"an empty value"),
    Message(b"an empty key", b""),
    Message("ümläüte ✓ \n\t".encode(), "schlüssel".encode()),
    Message(LONG, b"k", (("name", b"value"), ("name", b"twice"), ("empty", b""))),
    Message(None, b"k", (("why", b"deleted"),)),
)


def samples(client: Client) -> list[Message]:
    """In both partitions, with timestamps that do not only go up."""
    found: list[Message] = []
    for partition in (0, 1):
        for index, sample in enumerate(SAMPLES):
            timestamp = NOON + index % 3 * 1000 + index if client.sets_timestamps else None
            found.append(sample._replace(partition=partition, timestamp=timestamp))
    return found


def writers() -> Iterator[tuple[Client, str]]:
    for client in CLIENTS:
        for codec in client.codecs:
            yield client, codec


@pytest.mark.parametrize(
    ("writer", "codec"),
    list(writers()),
    ids=[f"{client.name}-{codec}" for client, codec in writers()],
)
def test_what_one_client_writes_every_client_reads(
    shared_node: RunningNode, make_topic: MakeTopic, writer: Client, codec: str
) -> None:
    topic = make_topic(2)
    sent = samples(writer)
    writer.write(shared_node.bootstrap, topic, sent, codec=codec)
    codecs = {batch.compression for batch in stored_batches(shared_node.data_dir, topic)}
    assert CODEC_NUMBERS[codec] in codecs
    timestamps: list[list[int | None]] = []
    for reader in CLIENTS:
        if codec not in reader.codecs:
            continue
        read = reader.read(shared_node.bootstrap, topic, len(sent), partitions=(0, 1))
        for partition in (0, 1):
            expected = [each for each in sent if each.partition == partition]
            got = [each for each in read if each.partition == partition]
            assert [each[:3] for each in got] == [each[:3] for each in expected], reader.name
            assert [each.offset for each in got] == list(range(len(expected))), reader.name
            if writer.sets_timestamps:
                assert [each.timestamp for each in got] == [each.timestamp for each in expected]
        timestamps.append([each.timestamp for each in sorted(read, key=_place)])
    assert all(each == timestamps[0] for each in timestamps)


def _place(message: Message) -> tuple[int, int]:
    return message.partition, message.offset


@pytest.mark.parametrize("reader", CLIENTS, ids=lambda client: client.name)
def test_a_message_without_key_and_value_and_a_header_without_value_arrive(
    bootstrap: str, topic: str, reader: Client
) -> None:
    """Only librdkafka sends the first, kafka-python refuses to send the second; all read both."""
    sent = [Message(None, None), Message(b"v", None, (("nothing", None), ("empty", b"")))]
    ConfluentKafka().write(bootstrap, topic, sent)
    assert [each[:3] for each in reader.read(bootstrap, topic, 2)] == [each[:3] for each in sent]


@pytest.mark.parametrize(
    ("codec", "level"),
    [("gzip", 1), ("gzip", 9), ("lz4", 0), ("lz4", 12), ("zstd", 1), ("zstd", 12)],
)
def test_every_level_of_compression_is_read_back(
    bootstrap: str, topic: str, codec: str, level: int
) -> None:
    sent = [Message(LONG + str(number).encode()) for number in range(200)]
    client = ConfluentKafka()
    client.write(bootstrap, topic, sent, codec=codec, options={"compression.level": level})
    for reader in CLIENTS:
        if codec in reader.codecs:
            read = reader.read(bootstrap, topic, len(sent))
            assert [each.value for each in read] == [each.value for each in sent], reader.name

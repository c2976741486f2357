"""What groups commit: by hand and by themselves, read back, and after restarts of everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from tests.compat.clients import aio, confluent, kafka_python
from tests.compat.clients.members import KINDS, PROTOCOLS, Group
from tests.compat.clients.message import PATIENCE_S, Deadline, Message
from tests.compat.conftest import create_topic
from tests.support.node_process import StartNode

WRITER = confluent.ConfluentKafka()
SETTINGS = (
    "--set=group.min.session.timeout.ms=500",
    "--set=group.consumer.heartbeat.interval.ms=200",
)
NODE_ARGUMENTS = SETTINGS


def fill(bootstrap: str, topic: str, numbers: range) -> None:
    WRITER.write(bootstrap, topic, [Message(str(each).encode()) for each in numbers])


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    """A topic of one partition with the numbers from 0 to 9."""
    fill(bootstrap, topic, range(10))
    return topic


@pytest.fixture(params=PROTOCOLS)
def consumer(request: pytest.FixtureRequest, bootstrap: str, filled: str) -> Iterator[Consumer]:
    """confluent-kafka in a group of its own, by each protocol; it commits when it is told to."""
    options = {
        **PROTOCOLS[request.param],
        "group.id": f"group-of-{filled}",
        "auto.offset.reset": "earliest",
    }
    with closing(confluent.make_consumer(bootstrap, options)) as consumer:
        consumer.subscribe([filled])
        yield consumer


def committed(consumer: Consumer, topic: str) -> TopicPartition:
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    assert isinstance(found, TopicPartition)
    return found


def test_nothing_is_committed_before_it_is_told_to(consumer: Consumer, filled: str) -> None:
    confluent.take(consumer, 3)
    assert committed(consumer, filled).offset == OFFSET_INVALID


def test_commits_that_wait_and_commits_that_do_not(consumer: Consumer, filled: str) -> None:
    confluent.take(consumer, 3)
    (done,) = consumer.commit(asynchronous=False)
    assert (done.offset, done.error) == (3, None)
    assert committed(consumer, filled).offset == 3
    confluent.take(consumer, 4)
    consumer.commit(asynchronous=True)
    consumer.commit(offsets=[TopicPartition(filled, 0, 9, "so far")], asynchronous=False)
    found = committed(consumer, filled)
    assert (found.offset, found.metadata) == (9, "so far")


def test_a_seek_moves_the_reader_and_not_the_commit(consumer: Consumer, filled: str) -> None:
    confluent.take(consumer, 10)
    consumer.commit(asynchronous=False)
    consumer.seek(TopicPartition(filled, 0, 4))
    assert [each.offset for each in confluent.take(consumer, 6)] == list(range(4, 10))
    assert committed(consumer, filled).offset == 10


def test_lag_is_what_was_written_and_not_committed(
    bootstrap: str, consumer: Consumer, filled: str
) -> None:
    confluent.take(consumer, 4)
    consumer.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})
    group = f"group-of-{filled}"
    asked = ConsumerGroupTopicPartitions(group)
    answer = admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S)
    (offset,) = [each.offset for each in answer.topic_partitions]
    where = TopicPartition(filled, 0)
    spec: Any = OffsetSpec
    end = admin.list_offsets({where: spec.latest()})[where].result(PATIENCE_S).offset
    assert end - offset == 6


def test_a_metadata_text_too_long_is_refused(consumer: Consumer, filled: str) -> None:
    confluent.take(consumer, 1)
    long = TopicPartition(filled, 0, 1, "x" * 5000)
    with pytest.raises(KafkaException) as raised:
        consumer.commit(offsets=[long], asynchronous=False)
    assert raised.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE


def test_a_commit_from_outside_a_living_group_is_refused(
    bootstrap: str, consumer: Consumer, filled: str
) -> None:
    confluent.take(consumer, 1)
    options = {"group.id": f"group-of-{filled}"}
    with confluent.assigned(bootstrap, filled, options=options) as outsider:
        with pytest.raises(KafkaException) as raised:
            outsider.commit(offsets=[TopicPartition(filled, 0, 1)], asynchronous=False)
        assert raised.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID


def test_without_a_subscription_a_group_id_is_enough_to_commit(bootstrap: str, filled: str) -> None:
    options = {"group.id": f"group-of-{filled}"}
    with confluent.assigned(bootstrap, filled, options=options) as consumer:
        confluent.take(consumer, 5)
        consumer.commit(asynchronous=False)
    with confluent.assigned(bootstrap, filled, options=options) as consumer:
        assert committed(consumer, filled).offset == 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 10)])
def test_a_new_group_starts_where_it_is_told_to(
    bootstrap: str, filled: str, protocol: str, reset: str, first: int
) -> None:
    """At the end: more is written until the reader, which has looked for it by then, sees it."""
    group = f"group-of-{filled}"
    options = {**PROTOCOLS[protocol], "group.id": group, "auto.offset.reset": reset}
    with closing(confluent.make_consumer(bootstrap, options)) as consumer:
        consumer.subscribe([filled])
        deadline = Deadline("the first message")
        while (found := consumer.poll(0.5)) is None:
            deadline.check()
            fill(bootstrap, filled, range(10, 11))
        assert found.error() is None
        assert (found.offset() or 0) >= first
        assert first > 0 or found.offset() == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_new_group_that_may_not_choose_a_start_is_told(
    bootstrap: str, filled: str, protocol: str
) -> None:
    group = f"group-of-{filled}"
    options = {**PROTOCOLS[protocol], "group.id": group, "auto.offset.reset": "error"}
    with closing(confluent.make_consumer(bootstrap, options)) as consumer:
        consumer.subscribe([filled])
        with pytest.raises(KafkaException) as raised:
            confluent.take(consumer, 1)
        assert raised.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def test_kafka_python_commits_reads_back_and_seeks(bootstrap: str, filled: str) -> None:
    where = kafka.TopicPartition(filled, 0)
    options: dict[str, Any] = {
        "group_id": f"group-of-{filled}",
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
    }

    def member() -> Any:
        return closing(kafka.KafkaConsumer(filled, bootstrap_servers=bootstrap, **options))

    with member() as consumer:
        assert consumer.committed(where) is None
        kafka_python.take(consumer, 4)
        consumer.commit()
        assert consumer.committed(where) == 4
        answers: list[object] = []
        seven = {where: kafka.OffsetAndMetadata(7, "seven", -1)}
        consumer.commit_async(seven, callback=lambda _, answer: answers.append(answer))
        consumer.pause(where)
        deadline = Deadline("the answer to a commit")
        while not answers:
            deadline.check()
            consumer.poll(timeout_ms=50)
        assert consumer.committed(where, metadata=True).metadata == "seven"
    with member() as consumer:
        assert kafka_python.take(consumer, 1)[0].offset == 7
        consumer.seek(where, 2)
        assert kafka_python.take(consumer, 1)[0].offset == 2


def test_aiokafka_commits_reads_back_and_seeks(bootstrap: str, filled: str) -> None:
    where = aiokafka.TopicPartition(filled, 0)

    async def run(seen: int) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            filled,
            bootstrap_servers=bootstrap,
            group_id=f"group-of-{filled}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            assert ((await consumer.committed(where)) or 0) == seen
            assert (await aio.take(consumer, 1))[0].offset == seen
            await aio.take(consumer, 3)
            await consumer.commit()
            assert await consumer.committed(where) == seen + 4
            consumer.seek(where, 2)
            assert (await aio.take(consumer, 1))[0].offset == 2
        finally:
            await consumer.stop()

    asyncio.run(run(0))
    asyncio.run(run(4))


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_goes_on_where_it_ended_and_through_kill_9(
    start_node: StartNode, tmp_path: Path, kind: str
) -> None:
    """The first member leaves in order; the second lives through the death of the node."""
    node = start_node(tmp_path / "data", *SETTINGS)
    create_topic(node.bootstrap, "numbers", 1, {})
    with Group(node.bootstrap, "readers", ["numbers"]) as group:
        fill(node.bootstrap, "numbers", range(10))
        first = group.join(kind)
        group.has_read([str(each) for each in range(10)])
        first.leave()
        node.kill()
        node.restart()
        second = group.join(kind)
        fill(node.bootstrap, "numbers", range(10, 20))
        group.has_read([str(each) for each in range(20)])
        node.kill()
        node.restart()
        fill(node.bootstrap, "numbers", range(20, 30))
        group.has_read_at_least([str(each) for each in range(30)])
        assert len(second.owned) == 1

"""`tidelog.aio`: the same on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from tests.support.eventually import PATIENCE_S, attempts

import tidelog
from tidelog.model.ids import TopicPartition
from tidelog.testing import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def run(main: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await main

    asyncio.run(limited())


def test_a_record_goes_there_and_back(node: Node) -> None:
    async def main() -> None:
        async with tidelog.aio.Admin(node.bootstrap) as admin:
            await admin.create_topic("orders", partitions=2)
            assert len((await admin.topic("orders")).partitions) == 2
        async with tidelog.aio.Producer(node.bootstrap) as producer:
            receipt = await producer.send("orders", "2 apples", key="alice", partition=1)
            assert (receipt.partition, receipt.offset) == (1, 0)
        async with tidelog.aio.Consumer(
            "orders",
            group="billing",
            until_end=True,
            idle_timeout_s=PATIENCE_S,
            bootstrap=node.bootstrap,
        ) as consumer:
            assert [message.text async for message in consumer] == ["2 apples"]

    run(main())


def test_many_records_are_on_their_way_at_once(node: Node) -> None:
    async def main() -> None:
        async with tidelog.aio.Producer(node.bootstrap) as producer:
            deliveries = [await producer.enqueue("orders", str(n)) for n in range(1000)]
            receipts = await asyncio.gather(*deliveries)
        assert [receipt.offset for receipt in receipts] == list(range(1000))

    run(main())
    assert [message.text for message in node.records("orders")] == [str(n) for n in range(1000)]


def test_the_end_of_the_block_waits_for_what_nobody_awaited(node: Node) -> None:
    async def main() -> None:
        async with tidelog.aio.Producer(node.bootstrap, linger_ms=100) as producer:
            delivery = await producer.enqueue("orders", "x")
        assert delivery.done()

    run(main())
    assert len(node.records("orders")) == 1


def test_a_failure_nobody_awaited_is_raised_at_the_end(node: Node) -> None:
    async def main() -> None:
        async with tidelog.aio.Producer(node.bootstrap) as producer:
            await producer.enqueue("orders", b"x" * 2_000_000)

    with pytest.raises(tidelog.MessageTooLarge, match="1 record was not delivered"):
        run(main())


def test_a_failure_that_was_awaited_is_not_raised_again(node: Node) -> None:
    async def main() -> None:
        async with tidelog.aio.Producer(node.bootstrap) as producer:
            with pytest.raises(tidelog.MessageTooLarge):
                await producer.send("orders", b"x" * 2_000_000)

    run(main())


def test_the_loop_goes_on_while_a_record_waits_for_its_answer(node: Node) -> None:
    async def main() -> None:
        async with tidelog.aio.Producer(node.bootstrap) as producer:
            fault = node.delay("Produce", ms=3_600_000)
            sending = asyncio.create_task(producer.send("orders", "x"))
            for _ in attempts("the request"):
                if fault.hits:
                    break
                await asyncio.sleep(0.01)
            assert not sending.done()
            node.advance(hours=1)
            assert (await sending).offset == 0

    run(main())


def test_a_cancelled_wait_loses_no_message(node: Node) -> None:
    async def main() -> None:
        node.create_topic("orders")
        async with tidelog.aio.Consumer(
            "orders", idle_timeout_s=PATIENCE_S, bootstrap=node.bootstrap
        ) as consumer:
            waiting = asyncio.ensure_future(anext(consumer))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            node.produce("orders", "a", "b")
            assert [(await anext(consumer)).text for _ in range(2)] == ["a", "b"]

    run(main())


def test_processing_is_at_least_once_unless_told_otherwise(node: Node) -> None:
    node.produce("orders", "a", "b", "c")

    async def read(processing: Any, *, fail_at: str) -> list[str]:
        seen: list[str] = []
        async with tidelog.aio.Consumer(
            "orders",
            group=processing,
            processing=processing,
            until_end=True,
            idle_timeout_s=PATIENCE_S,
            bootstrap=node.bootstrap,
        ) as consumer:
            async for message in consumer:
                seen.append(message.text)
                if message.text == fail_at:
                    break
        return seen

    async def main() -> None:
        assert await read("at-least-once", fail_at="b") == ["a", "b"]
        assert await read("at-least-once", fail_at="") == ["b", "c"]
        assert await read("at-most-once", fail_at="a") == ["a"]
        assert await read("at-most-once", fail_at="") == []

    run(main())


def test_a_commit_writes_down_the_current_message_and_a_stop_ends_the_loop(node: Node) -> None:
    node.produce("orders", "a", "b")

    async def main() -> None:
        async with tidelog.aio.Consumer(
            "orders", group="billing", idle_timeout_s=PATIENCE_S, bootstrap=node.bootstrap
        ) as consumer:
            async for message in consumer:
                assert message.text == "a"
                await consumer.commit()
                consumer.stop()
        async with tidelog.aio.Admin(node.bootstrap) as admin:
            assert await admin.committed("billing") == {TopicPartition("orders", 0): 1}
            assert [group.name for group in await admin.groups()] == ["billing"]

    run(main())


def test_what_is_not_open_says_how_to_open_it(node: Node) -> None:
    async def main() -> None:
        with pytest.raises(tidelog.ClientError, match="async with Producer"):
            await tidelog.aio.Producer(node.bootstrap).send("orders", "x")
        consumer = tidelog.aio.Consumer("orders", bootstrap=node.bootstrap)
        with pytest.raises(tidelog.ClientError, match="async with Consumer"):
            await anext(consumer)
        await consumer.close()

    run(main())


def test_a_missing_broker_is_said_to_be_missing(node: Node) -> None:
    node.crash()

    async def main() -> None:
        with pytest.raises(tidelog.NoBroker):
            await tidelog.aio.Producer(node.bootstrap).start()

    run(main())

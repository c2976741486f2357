"""kill -9, again and again, while producers write: what was acknowledged is there, once.

Each producer makes one attempt per operation and writes down what it was told. A plain producer
never repeats a value, so each is in the log at most once; an idempotent one repeats what it has no
answer to, after the restart, with the same sequence number, until it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from tests.endtoend.observing import assert_healthy, wait_until
from tests.support.node_driver import batch_of
from tests.support.node_process import RunningNode, StartNode
from tests.support.raw_client import ConnectionLost, RawClient, patient_produce

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.produce import PartitionProduceResponse

_ROUNDS = 8
_PIPELINED = 4


class PlainProducer:
    """Values `name-0`, `name-1`, … to one partition, several requests at a time."""

    def __init__(self, node: RunningNode, name: str) -> None:
        self._node = node
        self._name = name
        self._sent = 0
        self.acknowledged: dict[bytes, int] = {}

    def run(self) -> None:
        """Until the node is gone."""
        try:
            with RawClient(self._node) as client:
                waiting: list[bytes] = []
                while True:
                    while len(waiting) < _PIPELINED:
                        value = b"%s-%d" % (self._name.encode(), self._sent)
                        self._sent += 1
                        client.send(patient_produce("plain", batch_of(value)), 9)
                        waiting.append(value)
                    answer = client.receive().responses[0].partition_responses[0]
                    assert answer.error_code is ErrorCode.NONE, answer
                    self.acknowledged[waiting.pop(0)] = answer.base_offset
        except ConnectionLost:
            pass


class IdempotentProducer:
    """Batches of two records with sequence numbers; the unanswered are sent again, in order."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        with RawClient(node) as client:
            self._producer_id, self._epoch = client.init_producer_id()
        self._next_batch = 0
        self._unanswered: list[int] = []
        self.acknowledged: dict[int, int] = {}

    def run(self) -> None:
        try:
            with RawClient(self._node) as client:
                for batch in self._unanswered:
                    self._send(client, batch)
                while True:
                    while len(self._unanswered) < _PIPELINED:
                        self._unanswered.append(self._next_batch)
                        self._next_batch += 1
                        self._send(client, self._unanswered[-1])
                    self._take_answer(client)
        except ConnectionLost:
            pass

    def finish(self) -> None:
        """The unanswered once more, and no others."""
        with RawClient(self._node) as client:
            for batch in self._unanswered:
                self._send(client, batch)
            while self._unanswered:
                self._take_answer(client)

    def _take_answer(self, client: RawClient) -> None:
        answer: PartitionProduceResponse = client.receive().responses[0].partition_responses[0]
        assert answer.error_code is ErrorCode.NONE, answer
        self.acknowledged[self._unanswered.pop(0)] = answer.base_offset

    def _send(self, client: RawClient, batch: int) -> None:
        records = batch_of(
            b"%d" % (2 * batch),
            b"%d" % (2 * batch + 1),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=2 * batch,
        )
        client.send(patient_produce("once", records), 9)


def _while_running(runs: list[Callable[[], None]], until: Callable[[], None]) -> None:
    with ThreadPoolExecutor(len(runs)) as pool:
        running = [pool.submit(run) for run in runs]
        until()
        for run in running:
            run.result()


@pytest.mark.parametrize("policy", ["ack", "os"])
def test_nothing_acknowledged_is_lost_or_doubled_by_kill_9(
    start_node: StartNode, tmp_path: Path, policy: str
) -> None:
    """Small segments, so that rolls are interrupted too. (A killed process loses no page cache, so
    `flush.policy=os` must stand this as well.)"""
    random = Random(policy)
    settings = ("--set", "segment.bytes=4096", "--set", f"flush.policy={policy}")
    node = start_node(tmp_path / "data", *settings)
    with RawClient(node) as client:
        client.create_topic("plain")
        client.create_topic("once")
    plain = [PlainProducer(node, "a"), PlainProducer(node, "b")]
    once = IdempotentProducer(node)
    seen: dict[int, bytes | None] = {}
    for _ in range(_ROUNDS):
        goal = sum(len(p.acknowledged) for p in plain) + random.randrange(1, 300)

        def kill_at_goal(goal: int = goal) -> None:
            wait_until(lambda: sum(len(p.acknowledged) for p in plain) >= goal, "enough acks")
            node.kill()

        _while_running([once.run, *(producer.run for producer in plain)], kill_at_goal)
        node.restart()
        with RawClient(node) as client:
            now = client.read("plain")
        assert seen.items() <= now.items(), "an offset has got another value"
        seen = now
        assert len(set(now.values())) == len(now), "a value is there twice"
        for producer in plain:
            for value, offset in producer.acknowledged.items():
                assert now[offset] == value
    once.finish()
    with RawClient(node) as client:
        values = client.read("once")
    assert list(values.values()) == [b"%d" % number for number in range(len(values))]
    assert once.acknowledged == {batch: 2 * batch for batch in range(len(values) // 2)}
    assert_healthy(node)


def test_topics_made_before_a_kill_are_there_after_it_and_deleted_ones_are_not(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data")
    for number in range(5):
        with RawClient(node) as client:
            client.create_topic(f"kept-{number}", partitions=3)
            client.create_topic(f"gone-{number}", partitions=3)
            client.must_produce(f"kept-{number}", b"x", partition=2)
            client.delete_topic(f"gone-{number}")
        node.kill()
        node.restart()
    with RawClient(node) as client:
        assert client.topics() == {f"kept-{number}": 3 for number in range(5)}
        for number in range(5):
            assert client.read(f"kept-{number}", 2) == {0: b"x"}
    assert_healthy(node)

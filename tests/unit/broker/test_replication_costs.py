"""What replication costs the leader and the follower: as much as has moved, no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.support.call_counts import python_calls_of
from tests.support.neighbours import Neighbours
from tests.support.node_driver import batch_of, produce_request

from tidelog.broker.events import Event
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.requests import decode_response, encode_request

PARTITIONS = 1000
AS_MUCH = 3
"""With a thousand partitions followed, a step may cost so many times what it does with one."""
LEADER, FOLLOWER = 1, 2
CREATE_TOPICS, PRODUCE = 19, 0
VOTERS = "1@127.0.0.1:9001,2@127.0.0.1:9002"


class Pair(Neighbours):
    """Node 1 leads all partitions of "orders", and node 2 follows them. Steps are counted."""

    def __init__(self, folder: Path, partitions: int) -> None:
        super().__init__(folder)
        self.is_counting = False
        self.most: Counter[int] = Counter()
        """The dearest step of each node."""
        self.all: Counter[int] = Counter()
        for number in (LEADER, FOLLOWER):
            disk = SimDisk(Random(number))
            self.start(number, disk=disk, controller_quorum_voters=VOTERS)
        self.run_until(lambda: all(node.is_serving for node in self.nodes.values()), "two nodes")
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[LEADER, FOLLOWER])
            for index in range(partitions)
        ]
        topic = CreatableTopic(
            name="orders", num_partitions=-1, replication_factor=-1, assignments=assignments
        )
        self.call(CreateTopicsRequest(topics=[topic]), 5)
        self.run_until(lambda: self._is_followed(partitions), "the topic's replicas")
        self.pass_ms(3_000)

    def _is_followed(self, partitions: int) -> bool:
        leaders = self.nodes[LEADER].state.replicas.by_key
        return len(leaders) == partitions == len(self.nodes[FOLLOWER].state.replicas.by_key)

    def pass_ms(self, milliseconds: float) -> None:
        until_ms = self.now.monotonic_ms + milliseconds
        self.run_until(lambda: self.now.monotonic_ms >= until_ms, "time")

    def call(self, request: object, version: int) -> memoryview:
        frame = encode_request(request, version, correlation_id=1, client_id="test")
        known = len(self.answers)
        self.ask(LEADER, frame)
        self.run_until(lambda: len(self.answers) > known, "an answer")
        return self.answers[-1]

    def produce(self, partition: int) -> None:
        """Acknowledged by both."""
        request = produce_request("orders", batch_of(b"value"), partition=partition)
        decode_response(PRODUCE, 9, self.call(request, 9))

    def counted(self, what: str, work: Callable[[], None]) -> dict[str, int]:
        """How many functions are entered for it, by the node and in its dearest step."""
        self.most, self.all = Counter(), Counter()
        self.is_counting = True
        work()
        self.is_counting = False
        for node in self.nodes.values():
            node.validate()
        return {
            f"{what}, {whose} {sums}": counts[number]
            for number, whose in ((LEADER, "the leader's"), (FOLLOWER, "the follower's"))
            for sums, counts in (("dearest step", self.most), ("steps together", self.all))
        }

    def _step(self, number: int, event: Event) -> None:
        node, now = self.nodes[number], self.now
        if not self.is_counting:
            self._perform(number, node.step(now, event))
            return
        calls, (effects, _) = python_calls_of(lambda: (node.step(now, event), node.next_deadline()))
        self.most[number] = max(self.most[number], calls)
        self.all[number] += calls
        self._perform(number, effects)


def costs(folder: Path, partitions: int) -> dict[str, int]:
    """Of a record that is replicated, and of a second in which nothing happens."""
    pair = Pair(folder, partitions)
    for _ in range(2):
        pair.produce(partitions // 2)
        pair.pass_ms(2_000)
    counted = pair.counted("a produce", lambda: pair.produce(partitions // 2))
    pair.pass_ms(2_000)
    return {**counted, **pair.counted("a second at rest", lambda: pair.pass_ms(1_000))}


def test_replication_costs_the_same_however_many_partitions_are_followed(tmp_path: Path) -> None:
    one, many = (costs(tmp_path / str(count), count) for count in (1, PARTITIONS))
    for what, calls in one.items():
        assert many[what] <= AS_MUCH * calls, (what, one, many)

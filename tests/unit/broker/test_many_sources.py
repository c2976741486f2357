"""A member of a cluster that follows partitions from many nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.call_counts import python_calls_of
from tests.support.neighbours import Neighbours
from tests.unit.log.logs import settings
from tests.unit.partition.replicas import a_log, a_state

from tidelog.broker.events import ConnectionOpened
from tidelog.broker.node import Node
from tidelog.model.ids import ConnectionId, NodeId, PartitionKey, TopicPartition
from tidelog.partition.replica import Replica


def follow_from(node: Node, sources: int, now_ms: float) -> None:
    """A partition each, which is asked for."""
    replicas = node.state.replicas
    for number in range(sources):
        source = NodeId(100 + number)
        base = a_state(leader=source, replicas=(1, source), isr=(1, source))
        key = PartitionKey(base.key.topic_id, number)
        state = replace(base, key=key, name=TopicPartition("orders", number))
        log, topic = a_log(seed=number), settings()
        replicas.following.place(Replica(state, log, topic, replicas.membership, now_ms=now_ms))
    assert len(replicas.following.next_fetches(now_ms)) == sources


def cost_of_a_step(folder: Path, sources: int) -> int:
    """How many functions are entered, with the question for the next deadline."""
    neighbours = Neighbours(folder)
    node = neighbours.start(1, controller_quorum_voters="1@127.0.0.1:9001")
    neighbours.run_until(lambda: node.is_serving, "the first member")
    now = neighbours.now
    follow_from(node, sources, now.monotonic_ms)

    def step(number: int) -> None:
        node.step(now, ConnectionOpened(ConnectionId(900 + number), "client"))
        node.next_deadline()

    step(1)
    return python_calls_of(lambda: step(2))[0]


def test_a_step_costs_the_same_however_many_nodes_it_fetches_from(tmp_path: Path) -> None:
    few = cost_of_a_step(tmp_path / "few", 2)
    many = cost_of_a_step(tmp_path / "many", 99)
    assert many <= few + 3, (few, many)

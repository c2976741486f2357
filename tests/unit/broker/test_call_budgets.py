"""How many Python functions a small request enters: most of what it costs, and the same every time.

A budget is what is needed today and a little more. Who goes over it by one more question in every
step finds out here; who needs less lowers it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.support.call_counts import python_calls_of
from tests.support.node_driver import NodeDriver, batch_of, fetch_request, produce_request

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effects import StartFlush
from tidelog.broker.events import ConnectionOpened, Event, FlushDone, FrameReceived
from tidelog.broker.node import Node
from tidelog.model.clock import Now
from tidelog.model.ids import ConnectionId, NodeId
from tidelog.model.settings import Value, node_settings
from tidelog.partition.replica import Replica
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import Host, HostOptions
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.requests import encode_request

pytestmark = pytest.mark.interpreted
"""Compiled functions are not counted."""

WARM_UP = 3
"""So often before it is counted: the first request makes what the others find."""

PRODUCE, FETCH = 9, 12


class Measured(Protocol):
    """A node, the time, and a connection on which to ask it."""

    @property
    def node(self) -> Node: ...

    @property
    def now(self) -> Now: ...

    @property
    def connection(self) -> ConnectionId: ...


class QuietNode:
    """The leader of the one replica of "orders", alone or one of three voters. Nobody else asks it
    for anything."""

    connection = ConnectionId(1_000_000)

    def __init__(self, nodes: int) -> None:
        numbers = range(1, nodes + 1)
        voters: dict[str, Value] = {}
        if nodes > 1:
            voting = ",".join(f"{number}@node{number}:9092" for number in numbers)
            voters = {"controller.quorum.voters": voting}
        configs = [
            NodeConfig(
                node_id=NodeId(number),
                host=f"node{number}",
                port=9092,
                settings=node_settings(voters),
                topic_defaults={"flush.policy": "os"},
            )
            for number in numbers
        ]
        self._cluster = Cluster(7, *(HostOptions(config=config) for config in configs))
        for host in self._cluster.hosts.values():
            assert host.start()
        self._go_on()
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic])
        client = self._cluster.world.client("test")
        client.call(request, 7, timeout_ms=5_000)
        self._go_on()
        (self._host,) = [host for host in self._cluster.hosts.values() if _leads(host)]
        self.node.step(self.now, ConnectionOpened(self.connection, "test"))

    @property
    def node(self) -> Node:
        assert self._host.life is not None
        return self._host.life.node

    @property
    def now(self) -> Now:
        return self._host.clock.now(self._cluster.schedule.now_ms)

    def _go_on(self) -> None:
        schedule = self._cluster.schedule
        schedule.run(until_ms=schedule.now_ms + 5_000)


def _leads(host: Host) -> bool:
    assert host.life is not None
    replica = host.life.node.state.replicas.find("orders", 0)
    return isinstance(replica, Replica) and replica.leader is not None


class Meter:
    """A node whose turns of one event are counted, with the deadline that is asked after each."""

    def __init__(self, driver: Measured) -> None:
        self._driver = driver

    def request(self, request: object, version: int) -> int:
        """Its frame's turn, and the turn of the flush that it waits for."""
        for _ in range(WARM_UP):
            calls = self._take(self._frame(request, version))
        return calls

    def _frame(self, request: object, version: int) -> FrameReceived:
        frame = encode_request(request, version, correlation_id=1, client_id="test")
        return FrameReceived(self._driver.connection, memoryview(bytearray(frame[4:])))

    def _take(self, event: Event) -> int:
        node, now = self._driver.node, self._driver.now

        def act() -> list[Any]:
            effects = node.receive(now, event)
            effects += node.settle(now)
            node.next_deadline()
            return effects

        calls, effects = python_calls_of(act)
        for effect in effects:
            if isinstance(effect, StartFlush):
                for target in effect.targets:
                    target.sync()
                calls += self._take(FlushDone(effect.round, None))
        return calls


def meter(path: Path, **settings: str) -> tuple[NodeDriver, Meter]:
    driver = NodeDriver(path, None, **settings)
    driver.create_topic("orders")
    return driver, Meter(driver)


@pytest.mark.parametrize(("policy", "budget"), [("os", 54), ("ack", 100)])
def test_a_produce_of_one_record_keeps_to_its_budget(
    tmp_path: Path, policy: str, budget: int
) -> None:
    driver, cost = meter(tmp_path, flush_policy=policy)
    request = produce_request("orders", batch_of(b"value"), acks=1)
    assert cost.request(request, PRODUCE) <= budget
    driver.node.validate()


def test_a_member_pays_little_more_for_a_produce_than_a_node_alone() -> None:
    """At most 1.15 times as much."""
    request = produce_request("orders", batch_of(b"value"), acks=1)
    alone, member = Meter(QuietNode(1)), Meter(QuietNode(3))
    assert member.request(request, PRODUCE) <= 1.15 * alone.request(request, PRODUCE)


def test_a_fetch_of_one_record_keeps_to_its_budget(tmp_path: Path) -> None:
    driver, cost = meter(tmp_path)
    driver.produce("orders", b"value")
    assert cost.request(fetch_request(), FETCH) <= 75


def test_the_smallest_request_keeps_to_its_budget(tmp_path: Path) -> None:
    _, cost = meter(tmp_path)
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    assert cost.request(request, 3) <= 21


def test_a_heartbeat_keeps_to_its_budget(tmp_path: Path) -> None:
    driver, cost = meter(tmp_path, offsets_topic_num_partitions="1")
    driver.request(FindCoordinatorRequest(coordinator_keys=["billing"]))
    join = JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    number = driver.submit(join, version=3)
    driver.advance(10_000)
    member = driver.responses[number]
    beat = HeartbeatRequest(
        group_id="billing", generation_id=member.generation_id, member_id=member.member_id
    )
    assert cost.request(beat, 4) <= 41

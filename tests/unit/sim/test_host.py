"""A host: lives that end, and what of them must not reach the next."""

from __future__ import annotations

from random import Random

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effects import Effect
from tidelog.broker.events import Event, FrameReceived
from tidelog.broker.node import Node
from tidelog.model.clock import Now
from tidelog.model.ids import NodeId
from tidelog.sim.client import Answer, Client, Lost, Reply
from tidelog.sim.cluster import Cluster
from tidelog.sim.effort import SYNC_MS
from tidelog.sim.host import HostOptions, NodeFactory
from tidelog.sim.schedule import Promise
from tidelog.sim.workload import create_topic, metadata
from tidelog.sim.workload.create_topic import CreatePlan
from tidelog.sim.workload.metadata import MetadataPlan

PLAN = CreatePlan("t", 2)


class Bench:
    """A cluster of one with a running node, and a client."""

    def __init__(self, make_node: NodeFactory = Node) -> None:
        config = NodeConfig(node_id=NodeId(1), host="localhost", port=9092)
        options = HostOptions(config=config, make_node=make_node, flush_ms=(10.0, 10.0))
        self.cluster = Cluster(7, options)
        self.host = self.cluster.host
        assert self.host.start()
        self.client: Client = self.cluster.world.client("test")

    def wait(self, duration_ms: float = 1_000.0) -> None:
        schedule = self.cluster.schedule
        schedule.run(until_ms=schedule.now_ms + duration_ms)

    def create(self) -> Promise[Reply]:
        return self.client.call(create_topic.build(PLAN), 5, timeout_ms=5_000)

    def topics(self) -> list[str]:
        self.wait()
        request = metadata.build(MetadataPlan(None))
        promise = self.client.call(request, 9, timeout_ms=5_000)
        self.wait()
        assert isinstance(promise.value, Answer)
        return list(metadata.classify(promise.value.body))


def test_a_request_is_answered_after_its_flush() -> None:
    bench = Bench()
    promise = bench.create()
    bench.wait(5.0)
    assert not promise.is_kept
    bench.wait()
    assert isinstance(promise.value, Answer)
    assert bench.topics() == ["t"]


def test_a_flush_of_a_dead_life_never_reports() -> None:
    bench = Bench()
    promise = bench.create()
    bench.wait(5.0)
    assert bench.host.is_flushing
    bench.host.crash("kill")
    assert not bench.host.is_flushing
    assert bench.host.start()
    bench.wait()
    assert isinstance(promise.value, Lost)
    assert bench.host.life is not None
    assert bench.host.life.number == 2


def test_a_life_begins_with_what_the_disk_holds() -> None:
    for kind in ("kill", "power", "stop"):
        bench = Bench()
        bench.create()
        bench.wait()
        if kind == "stop":
            bench.host.stop()
        else:
            bench.host.crash("power" if kind == "power" else "kill")
        assert not bench.host.is_up
        assert bench.host.start()
        assert bench.topics() == ["t"]


def test_a_host_that_is_down_refuses_connections() -> None:
    bench = Bench()
    bench.host.crash("kill")
    promise = bench.create()
    bench.wait()
    assert isinstance(promise.value, Lost)


def test_a_start_may_be_cut_short_by_another_power_failure() -> None:
    bench = Bench()
    bench.create()
    bench.wait()
    bench.host.crash("kill")
    bench.host.disk.faults.changes_left = 1
    assert not bench.host.start()
    assert not bench.host.is_up
    assert bench.host.start()
    assert bench.topics() == ["t"]


def test_a_node_is_made_anew_for_each_life() -> None:
    made: list[Node] = []

    def make_node(*arguments: object, **more: object) -> Node:
        made.append(Node(*arguments, **more))  # type: ignore[arg-type]
        return made[-1]

    config = NodeConfig(node_id=NodeId(1), host="localhost", port=9092)
    cluster = Cluster(7, HostOptions(config=config, make_node=make_node))
    cluster.host.start()
    cluster.host.crash("power")
    cluster.host.start()
    assert len(made) == 2
    assert made[0] is not made[1]


def test_a_machine_with_a_battery_loses_processes_only() -> None:
    config = NodeConfig(node_id=NodeId(1), host="localhost", port=9092)
    host = Cluster(7, HostOptions(config=config, has_battery=True)).host
    assert host.start()
    file = host.disk.open("unsynced", create=True)
    file.write(0, [b"data"])
    for _ in range(20):
        host.crash("power")
    assert host.disk.open("unsynced").size() == 4


def test_streams_of_luck_are_apart() -> None:
    one, other = Cluster.stream_of(1, "network"), Cluster.stream_of(1, "disk")
    assert one.random() != other.random()
    assert isinstance(one, Random)
    assert Cluster.stream_of(1, "disk").random() == Cluster.stream_of(1, "disk").random()


class BusyNode(Node):
    """Each request costs it a sync in its own step."""

    def receive(self, now: Now, event: Event) -> list[Effect]:
        if isinstance(event, FrameReceived):
            self._disk.directory("").sync()
        return super().receive(now, event)


def _answered_after_ms(bench: Bench, requests: int) -> float:
    """The time until all of them are answered, sent together."""
    schedule, request = bench.cluster.schedule, metadata.build(MetadataPlan(None))
    promises = [bench.client.call(request, 9, timeout_ms=5_000) for _ in range(requests)]
    began_ms = schedule.now_ms
    schedule.run(until_ms=began_ms + 1_000, is_done=lambda: all(each.is_kept for each in promises))
    return schedule.now_ms - began_ms


def test_what_comes_while_a_turn_takes_its_time_waits() -> None:
    quick, busy = Bench(), Bench(BusyNode)
    for bench in (quick, busy):
        _answered_after_ms(bench, requests=10)
    quick_ms, busy_ms = (_answered_after_ms(bench, requests=1) for bench in (quick, busy))
    assert busy_ms >= quick_ms + 5 * SYNC_MS

"""Three nodes as processes that agree by a real ZooKeeper: what they leave in it, and what happens
when a leader, the controller, a session or ZooKeeper itself is gone for a while."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.exceptions import NoNodeError
from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.steady_traffic import SteadyTraffic, check_nothing_lost_or_doubled
from tests.support.zookeeper import ZooKeeperEnsemble

from tidelog.cli.cluster_process import ClusterProcess

TOPIC = "orders"
PARTITIONS = 3
SESSION_MS = 4_000
PATH = "/for/tidelog"


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path) as running:
        yield running


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeperEnsemble) -> Iterator[ClusterProcess]:
    with start_cluster(tmp_path, zookeeper) as running:
        yield running


def start_cluster(tmp_path: Path, zookeeper: ZooKeeperEnsemble) -> ClusterProcess:
    """With a topic."""
    session = f"zookeeper.session.timeout.ms={SESSION_MS}"
    where = f"{zookeeper.connect}{PATH}"
    running = ClusterProcess(tmp_path, "--set", session, count=3, zookeeper=where)
    create_topic(running.bootstrap, TOPIC)
    return running


def create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([new], request_timeout=20)[name].result(60)


def _partitions(bootstrap: str) -> list[Any]:
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics(TOPIC, timeout=30)
    return list(topic.topics[TOPIC].partitions.values())


def _leader(bootstrap: str) -> int:
    return int(_partitions(bootstrap)[0].leader)


def _is_whole(bootstrap: str) -> bool:
    """Every partition has all of its replicas in sync."""
    partitions = _partitions(bootstrap)
    return len(partitions) == PARTITIONS and all(
        len(one.isrs) == 3 and one.leader >= 0 for one in partitions
    )


def _read(zookeeper: ZooKeeperEnsemble, path: str) -> dict[str, Any]:
    """What a znode says; nothing if there is none."""

    def read(client: Any) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(client.get(PATH + path)[0])
        except NoNodeError:
            return {}
        return found

    return zookeeper.look(read)


def _wait_for_epoch(zookeeper: ZooKeeperEnsemble, path: str, before: int) -> None:
    """Until the znode names one after that."""
    eventually(lambda: _read(zookeeper, path).get("epoch", -1) > before, f"the next of {path}")


def test_what_is_in_zookeeper_can_be_read_by_people(
    cluster: ClusterProcess, zookeeper: ZooKeeperEnsemble
) -> None:
    for node_id, node in cluster.nodes.items():
        said = _read(zookeeper, f"/brokers/ids/{node_id}")
        assert (said["host"], said["port"], said["rack"]) == (node.host, node.port, None)
        _wait_for_epoch(zookeeper, f"/brokers/ids/{node_id}", 0)
    controller = _read(zookeeper, "/controller")
    assert controller["brokerid"] in cluster.nodes
    assert controller["epoch"] == _read(zookeeper, "/controller_epoch")
    for number in range(PARTITIONS):
        state = _read(zookeeper, f"/brokers/topics/{TOPIC}/partitions/{number}/state")
        assert state["leader"] in cluster.nodes
        assert sorted(state["isr"]) == sorted(cluster.nodes)
        assert state["leader_epoch"] >= 0
    replicas = _read(zookeeper, f"/brokers/topics/{TOPIC}")["partitions"]
    assert {tuple(sorted(each)) for each in replicas.values()} == {(1, 2, 3)}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(60)
    assert _read(zookeeper, f"/brokers/topics/{TOPIC}") == {}


def test_the_state_of_the_cluster_is_told_and_nobody_votes(
    tidelog: CommandLine, cluster: ClusterProcess, zookeeper: ZooKeeperEnsemble, tmp_path: Path
) -> None:
    eventually(lambda: _is_whole(cluster.bootstrap), "a full in-sync set")
    told = tidelog("cluster", "status", "--json", "--bootstrap", cluster.bootstrap)
    assert (told.code, told.errors) == (0, "")
    (controller,) = [node["node"] for node in told.json["nodes"] if node["is_controller"]]
    assert controller == _read(zookeeper, "/controller")["brokerid"]
    fourth = ("--data-dir", str(tmp_path / "fourth"), "--bootstrap", cluster.bootstrap)
    refused = tidelog("cluster", "join", *fourth)
    assert refused.code == 1
    assert "agrees by ZooKeeper" in refused.errors


def test_killing_leader_and_controller_loses_nothing_and_doubles_nothing(
    cluster: ClusterProcess, zookeeper: ZooKeeperEnsemble
) -> None:
    with SteadyTraffic(cluster.bootstrap, TOPIC) as traffic:
        traffic.wait_for_progress()
        for victim in ("leader", "controller"):
            epoch = _read(zookeeper, "/controller")["epoch"]
            controller = int(_read(zookeeper, "/controller")["brokerid"])
            node_id = _leader(cluster.bootstrap) if victim == "leader" else controller
            cluster.nodes[node_id].kill()
            traffic.wait_for_progress()
            if node_id == controller:
                _wait_for_epoch(zookeeper, "/controller", epoch)
            cluster.nodes[node_id].restart()
            eventually(lambda: _is_whole(cluster.bootstrap), "a full in-sync set")
            traffic.wait_for_progress()
    assert not traffic.errors
    check_nothing_lost_or_doubled(traffic, cluster.bootstrap, TOPIC, PARTITIONS)


@pytest.mark.parametrize("how", ["stands still", "is killed"])
def test_nodes_serve_on_while_zookeeper(
    how: str, cluster: ClusterProcess, zookeeper: ZooKeeperEnsemble
) -> None:
    server = zookeeper.servers[0]
    with SteadyTraffic(cluster.bootstrap, TOPIC) as traffic:
        traffic.wait_for_progress()
        server.pause() if how == "stands still" else server.kill()
        eventually(
            lambda: all("can't be reached" in node.log for node in cluster.nodes.values()),
            "that all nodes know",
        )
        until = time.monotonic() + 3 * SESSION_MS / 1000
        while time.monotonic() < until:  # longer than any session and any lease
            traffic.wait_for_progress()
        with pytest.raises(KafkaException) as refused:
            create_topic(cluster.bootstrap, "more")
        assert refused.value.args[0].retriable() or "TIMED_OUT" in refused.value.args[0].name()
        server.go_on() if how == "stands still" else server.restart()
        _create_at_last(cluster.bootstrap, "more")
        eventually(lambda: _is_whole(cluster.bootstrap), "a full in-sync set")
        traffic.wait_for_progress()
    assert not traffic.errors
    check_nothing_lost_or_doubled(traffic, cluster.bootstrap, TOPIC, PARTITIONS)


def _create_at_last(bootstrap: str, name: str) -> None:
    def is_created() -> bool:
        try:
            create_topic(bootstrap, name)
        except KafkaException as error:
            return bool(error.args[0].name() == "TOPIC_ALREADY_EXISTS")
        return True

    eventually(is_created, f"the topic {name}")


def test_a_node_whose_session_is_over_is_fenced_and_comes_back_as_another(
    cluster: ClusterProcess, zookeeper: ZooKeeperEnsemble
) -> None:
    with SteadyTraffic(cluster.bootstrap, TOPIC) as traffic:
        traffic.wait_for_progress()
        victim = _leader(cluster.bootstrap)
        path = f"/brokers/ids/{victim}"
        epoch = _read(zookeeper, path)["epoch"]
        others = ",".join(n.bootstrap for i, n in cluster.nodes.items() if i != victim)
        cluster.nodes[victim].process.send_signal(signal.SIGSTOP)
        eventually(lambda: _read(zookeeper, path) == {}, "the end of the session")
        eventually(lambda: _leader(others) not in (victim, -1), "another leader")
        traffic.wait_for_progress()
        cluster.nodes[victim].process.send_signal(signal.SIGCONT)
        eventually(lambda: _is_whole(cluster.bootstrap), "a full in-sync set")
        _wait_for_epoch(zookeeper, path, epoch)
        traffic.wait_for_progress()
    assert "the session with ZooKeeper is over" in cluster.nodes[victim].log
    assert not traffic.errors
    check_nothing_lost_or_doubled(traffic, cluster.bootstrap, TOPIC, PARTITIONS)


def test_an_ensemble_of_three_can_lose_one(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ensemble = stack.enter_context(ZooKeeperEnsemble(tmp_path, count=3))
        cluster = stack.enter_context(start_cluster(tmp_path, ensemble))
        with SteadyTraffic(cluster.bootstrap, TOPIC) as traffic:
            for number, server in enumerate(ensemble.servers):
                server.kill()
                _create_at_last(cluster.bootstrap, f"while-{number}-is-gone")
                traffic.wait_for_progress()
                server.restart()
            eventually(lambda: _is_whole(cluster.bootstrap), "a full in-sync set")
        assert not traffic.errors
        check_nothing_lost_or_doubled(traffic, cluster.bootstrap, TOPIC, PARTITIONS)

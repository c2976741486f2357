"""Three nodes as processes, one of them killed again and again: nothing acknowledged is lost, and
nothing is there twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.support.eventually import eventually
from tests.support.steady_traffic import SteadyTraffic, check_nothing_lost_or_doubled

from tidelog.cli.cluster_process import ClusterProcess

TOPIC = "orders"
PARTITIONS = 3
ROUNDS = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path, count=3) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        new = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([new])[TOPIC].result(60)
        yield running


def _leader(bootstrap: str, partition: int = 0) -> int:
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics(TOPIC, timeout=30)
    return int(topic.topics[TOPIC].partitions[partition].leader)


def _is_whole(bootstrap: str) -> bool:
    """Every partition has all of its replicas in sync."""
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics(TOPIC, timeout=30)
    partitions = topic.topics[TOPIC].partitions.values()
    return all(len(one.isrs) == 3 and one.leader >= 0 for one in partitions)


def test_killing_leaders_loses_nothing_and_doubles_nothing(cluster: ClusterProcess) -> None:
    with SteadyTraffic(cluster.bootstrap, TOPIC) as traffic:
        traffic.wait_for_progress()
        for _ in range(ROUNDS):
            victim = cluster.nodes[_leader(cluster.bootstrap)]
            victim.kill()
            traffic.wait_for_progress()
            victim.restart()
            eventually(lambda: _is_whole(cluster.bootstrap), "a full in-sync set")
            traffic.wait_for_progress()
    assert not traffic.errors
    check_nothing_lost_or_doubled(traffic, cluster.bootstrap, TOPIC, PARTITIONS)


def test_a_rolling_restart_is_not_seen_by_a_client(cluster: ClusterProcess) -> None:
    with SteadyTraffic(cluster.bootstrap, TOPIC) as traffic:
        traffic.wait_for_progress()
        for node in cluster.nodes.values():
            assert node.stop() == 0
            traffic.wait_for_progress()
            node.restart()
            eventually(lambda: _is_whole(cluster.bootstrap), "a full in-sync set")
    assert not traffic.errors
    check_nothing_lost_or_doubled(traffic, cluster.bootstrap, TOPIC, PARTITIONS)

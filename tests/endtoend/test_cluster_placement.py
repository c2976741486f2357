"""Topics and nodes that are away: what is created meanwhile gets its copies, filled later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine
from tests.support.eventually import eventually

from tidelog.cli.cluster_process import ClusterProcess
from tidelog.client import Admin, Producer

TOPIC = "orders"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ExitStack() as stack:
        yield stack.enter_context(ClusterProcess(tmp_path, count=3))


def test_a_topic_made_while_a_node_is_down_is_filled_when_it_is_back(
    tidelog: CommandLine, cluster: ClusterProcess
) -> None:
    admin = Admin(cluster.bootstrap)
    at = ("--bootstrap", cluster.bootstrap)
    assert cluster.nodes[3].stop() == 0
    made = ("--partitions", "2", "--replication-factor", "3", "--set", "min.insync.replicas=2")
    created = tidelog("topic", "create", TOPIC, *made, *at)
    assert (created.code, created.errors) == (0, "")
    more = tidelog("topic", "alter", TOPIC, "--partitions", "3", *at)
    assert (more.code, more.errors) == (0, "")
    with Producer(cluster.bootstrap) as producer:
        for number in range(300):
            producer.send(TOPIC, b"%d" % number)
    partitions = admin.topic(TOPIC).partitions
    assert [sorted(partition.replicas) for partition in partitions] == [[1, 2, 3]] * 3
    assert [sorted(partition.in_sync) for partition in partitions] == [[1, 2]] * 3
    cluster.nodes[3].restart()
    eventually(
        lambda: all(len(one.in_sync) == 3 for one in admin.topic(TOPIC).partitions),
        "the third node in sync",
    )
    described = tidelog("topic", "describe", TOPIC, "--json", *at).json["partitions"]
    assert [set(row["lag"].values()) for row in described] == [{0}] * 3
    assert sum(row["end_offset"] for row in described) == 300
    assert tidelog("cluster", "status", "--json", *at).json["lacking_copies"] == []
    fewer = ("--topic", TOPIC, "--partition", "0", "--replicas", "1,2")
    assert tidelog("cluster", "reassign", *fewer, "--yes", *at).code == 0
    lacking = tidelog("cluster", "status", "--json", *at).json["lacking_copies"]
    assert lacking == [{"topic": TOPIC, "wanted": 3, "copies": 2, "partitions": 1}]
    shown = tidelog("cluster", "status", *at).output
    assert "Topics with fewer copies than they are to have:" in shown

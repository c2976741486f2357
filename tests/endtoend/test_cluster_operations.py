"""Looking after a cluster with the commands people use, while clients write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from tests.support.command_line import CommandLine
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.steady_traffic import SteadyTraffic, check_nothing_lost_or_doubled

from tidelog.cli.cluster_process import ClusterProcess
from tidelog.cli.node_process import NodeProcess
from tidelog.client import Admin, Producer
from tidelog.client.cluster_admin import ClusterAdmin
from tidelog.model.ids import TopicPartition

TOPIC, OFFSETS = "orders", "__consumer_offsets"
PARTITIONS = 3


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Whatever was started is gone at the end."""
    with ExitStack() as stack:
        yield stack


def joined(stack: ExitStack, data_dir: Path, bootstrap: str, *arguments: str) -> NodeProcess:
    """A node of its own process that has joined."""
    node = NodeProcess(data_dir, "--bootstrap", bootstrap, *arguments, command=("cluster", "join"))
    return stack.enter_context(node)


def keeps(bootstrap: str, node_id: int) -> int:
    return sum(
        node_id in partition.replicas
        for topic in Admin(bootstrap).topics()
        for partition in topic.partitions
    )


def is_up(bootstrap: str, node_id: int) -> bool:
    """All nodes say so: what one of them has just heard, another may not have."""
    views = [ClusterAdmin(address).view() for address in bootstrap.split(",")]
    return not any(view.nodes[node_id].is_fenced for view in views)


def copies(bootstrap: str, topic: str) -> set[int]:
    """How many copies are in sync, of each partition."""
    return {len(partition.in_sync) for partition in Admin(bootstrap).topic(topic).partitions}


def is_whole(bootstrap: str, copies: int) -> bool:
    return all(
        len(partition.in_sync) == copies and partition.leader >= 0
        for topic in Admin(bootstrap).topics()
        for partition in topic.partitions
    )


def commit_offsets(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    rows = [Position(TOPIC, number, offset) for number in range(PARTITIONS)]
    consumer.commit(offsets=rows, asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> dict[int, int]:
    return {
        place.partition: offset for place, offset in Admin(bootstrap).committed("readers").items()
    }


def test_a_node_alone_grows_to_three_and_may_then_be_lost(
    tidelog: CommandLine, stack: ExitStack, tmp_path: Path
) -> None:
    alone = stack.enter_context(NodeProcess(tmp_path / "one"))
    first = alone.bootstrap
    Admin(first).create_topic(TOPIC, partitions=PARTITIONS, settings={"retention.ms": "-1"})
    with SteadyTraffic(first, TOPIC) as traffic:
        traffic.wait_for_progress(200)
        commit_offsets(first, 17)
        assert alone.stop() == 0
        voters = f"controller.quorum.voters=1@{first}"
        one = NodeProcess(tmp_path / "one", "--set", voters, listen=first)
        stack.enter_context(one)
        two = joined(stack, tmp_path / "two", first, "--voter")
        three = joined(stack, tmp_path / "three", first, "--voter")
        cluster = ClusterAdmin(first)
        eventually(lambda: sorted(cluster.quorum().voters) == [1, 2, 3], "three voters")
        eventually(lambda: copies(first, OFFSETS) == {3}, "the groups' topic on all nodes")
        assert copies(first, TOPIC) == {1}
        told = tidelog("cluster", "status", "--json", "--bootstrap", first).json
        assert told["lacking_copies"] == []
        moved = tidelog(*("cluster", "reassign", "--replication-factor", "3", "--yes", "-b", first))
        assert (moved.code, moved.errors) == (0, "")
        traffic.wait_for_progress()
        assert is_whole(first, 3)
        one.kill()
        traffic.wait_for_progress()
    others = f"{two.bootstrap},{three.bootstrap}"
    assert not traffic.errors
    check_nothing_lost_or_doubled(traffic, others, TOPIC, PARTITIONS)
    assert committed(others) == dict.fromkeys(range(PARTITIONS), 17)
    assert Admin(others).settings(TOPIC)["retention.ms"].value == "-1"


def test_a_node_joins_takes_its_share_and_is_drained_and_removed(
    tidelog: CommandLine, stack: ExitStack, tmp_path: Path
) -> None:
    cluster = stack.enter_context(ClusterProcess(tmp_path, count=3))
    at = ("--bootstrap", cluster.bootstrap)
    made = ("--partitions", "4", "--replication-factor", "3", "--set", "min.insync.replicas=2")
    assert tidelog("topic", "create", TOPIC, *made, *at).code == 0
    with SteadyTraffic(cluster.bootstrap, TOPIC) as traffic:
        traffic.wait_for_progress()
        refused = tidelog("cluster", "drain", "3", *at)
        assert refused.code == 1
        assert "node 3 can't be drained" in refused.errors
        four = joined(stack, tmp_path / "four", cluster.bootstrap)
        shown = tidelog("cluster", "reassign", "--json", *at).json
        assert shown["dry_run"]
        assert keeps(cluster.bootstrap, 4) == 0
        done = tidelog("cluster", "reassign", "--throttle", "50", "--yes", *at)
        assert (done.code, done.errors) == (0, "")
        assert keeps(cluster.bootstrap, 4) == len(shown["partitions"]) == 3
        assert four.stop() == 0
        four = stack.enter_context(NodeProcess(tmp_path / "four", listen=four.bootstrap))
        eventually(lambda: is_up(cluster.bootstrap, 4), "the others have heard of it")
        drained = tidelog("cluster", "drain", "3", "--yes", *at)
        assert (drained.code, drained.errors) == (0, "")
        assert keeps(cluster.bootstrap, 3) == 0
        remove_while_it_is_stopped(cluster, 3)
        traffic.wait_for_progress()
    assert not traffic.errors
    check_nothing_lost_or_doubled(traffic, cluster.nodes[1].bootstrap, TOPIC, 4)
    told = tidelog("cluster", "status", "--json", "--bootstrap", four.bootstrap).json
    assert [row["node"] for row in told["nodes"]] == [1, 2, 4]
    assert (told["quorum"]["voters"], told["troubled"]) == ([1, 2], [])
    assert (
        not Admin(four.bootstrap).settings(TOPIC)["follower.replication.throttled.replicas"].is_own
    )


def remove_while_it_is_stopped(cluster: ClusterProcess, node_id: int) -> None:
    """The command asks for the node to be stopped, and waits for it."""
    left = cluster.nodes[1].bootstrap
    command = ["cluster", "drain", str(node_id), "--remove", "--yes", "--bootstrap", left]
    removing = subprocess.Popen(
        [sys.executable, "-m", "tidelog", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    eventually(lambda: node_id not in ClusterAdmin(left).quorum().voters, "one voter less")
    assert cluster.nodes[node_id].stop() == 0
    output, _ = removing.communicate(timeout=PATIENCE_S)
    assert removing.returncode == 0, output
    assert "stop it now" in output
    assert "is no member any more" in output


def test_leaders_go_home_and_copies_that_lag_are_named(
    tidelog: CommandLine, stack: ExitStack, tmp_path: Path
) -> None:
    cluster = stack.enter_context(ClusterProcess(tmp_path, count=3))
    at = ("--bootstrap", cluster.bootstrap)
    Admin(cluster.bootstrap).create_topic(TOPIC, partitions=3, replication_factor=3)
    assert cluster.nodes[2].stop() == 0
    described = tidelog("topic", "describe", TOPIC, *at)
    assert described.output.count("2: away") == 3
    status = tidelog("cluster", "status", *at)
    assert "fenced" in status.output
    assert max(map(len, (status.output + described.output).splitlines())) <= 80
    cluster.nodes[2].restart()
    eventually(lambda: is_whole(cluster.bootstrap, 3), "all in sync")
    elected = tidelog("cluster", "elect", "--json", *at).json["partitions"]
    assert [(row["new_leader"], row["error"]) for row in elected] == [(2, None)]
    again = tidelog("cluster", "elect", *at)
    assert again.output == "Every partition has the leader it should have.\n"
    document = tidelog("topic", "describe", TOPIC, "--json", *at).json
    assert [row["lag"] for row in document["partitions"]] == [{"1": 0, "2": 0, "3": 0}] * 3


def test_a_move_is_left_alone_slowed_down_taken_back_and_done(
    tidelog: CommandLine, stack: ExitStack, tmp_path: Path
) -> None:
    cluster = stack.enter_context(ClusterProcess(tmp_path, count=3))
    at = ("--bootstrap", cluster.bootstrap)
    admin, watching = Admin(cluster.bootstrap), ClusterAdmin(cluster.bootstrap)
    admin.create_topic(TOPIC, partitions=1, replication_factor=1)
    with Producer(cluster.bootstrap) as producer:
        for _ in range(20):  # batches of 50 kB: the first one alone takes the copy most of a minute
            for _ in range(100):
                producer.send(TOPIC, os.urandom(500))
            producer.flush()
    (old,) = admin.topic(TOPIC).partitions[0].replicas
    new = old % 3 + 1
    move = ("cluster", "reassign", "--topic", TOPIC, "--partition", "0", "--replicas", str(new))
    slowly = subprocess.Popen(
        [sys.executable, "-m", "tidelog", *move, "--throttle", "0.001", "--yes", *at],
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(watching.moves, "a move under way")
    eventually(lambda: tidelog("cluster", "status", *at).output.count("is being moved"), "a move")
    slowly.send_signal(signal.SIGINT)
    _, errors = slowly.communicate(timeout=PATIENCE_S)
    assert slowly.returncode == 130
    assert "the cluster goes on moving" in errors
    assert list(watching.moves()) == [TopicPartition(TOPIC, 0)]
    behind = tidelog("topic", "describe", TOPIC, *at).output
    assert f"{new}: " in behind
    taken_back = tidelog("cluster", "reassign", "--cancel", "--yes", *at)
    assert (taken_back.code, taken_back.output) == (0, "1 move taken back.\n")
    eventually(lambda: admin.topic(TOPIC).partitions[0].replicas == (old,), "the old place")
    assert not admin.settings(TOPIC)["follower.replication.throttled.replicas"].is_own
    assert tidelog(*move, "--yes", *at).code == 0
    eventually(lambda: admin.topic(TOPIC).partitions[0].replicas == (new,), "the new place")
    places = admin.topic(TOPIC).topic_partitions
    assert [span.records for span in admin.offsets(places).values()] == [2000]


def test_what_nobody_leads_is_told_with_all_the_rest(
    tidelog: CommandLine, stack: ExitStack, tmp_path: Path
) -> None:
    cluster = stack.enter_context(ClusterProcess(tmp_path, count=3))
    at = ("--bootstrap", cluster.bootstrap)
    admin = Admin(cluster.bootstrap)
    admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
    commit_offsets(cluster.bootstrap, 0)
    victim = admin.topic(TOPIC).partitions[1].leader
    cluster.nodes[victim].kill()
    eventually(lambda: not admin.topic(TOPIC).partitions[1].is_led, "nobody to lead it")
    rows = tidelog("topic", "list", "--json", *at).json
    assert [row["records"] for row in rows if row["topic"] == TOPIC] == [None]
    ends = tidelog("topic", "describe", TOPIC, "--json", *at).json["partitions"]
    assert [row["end_offset"] for row in ends] == [0, None, 0]
    assert "1 partition led by nobody" in tidelog("topic", "describe", TOPIC, *at).output
    told = tidelog("group", "describe", "readers", *at)
    assert "Led by nobody, so not counted: orders:1." in told.output
    refused = tidelog("consume", TOPIC, "--exit-at-end", *at)
    assert (refused.code, f"nobody leads topic {TOPIC!r}" in refused.errors) == (1, True)

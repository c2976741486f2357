"""Nodes that their cluster does not take, and nodes that leave nobody behind: they say why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.endtoend.cluster_stage import Stage, a_stage
from tests.support.command_line import CommandLine
from tests.support.eventually import attempts, eventually
from tests.support.raw_client import ConnectionLost, RawClient

from tidelog.cli.node_process import NodeProcess
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

VICTIM = 2


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with a_stage(tmp_path) as running:
        yield running


@pytest.mark.parametrize("is_controller", [True, False], ids=["controller", "another"])
def test_a_second_node_of_the_same_id_ends_with_one_line_and_disturbs_nobody(
    stage: Stage, tmp_path: Path, is_controller: bool
) -> None:
    controller = stage.controller()
    twin = next(each for each in stage.nodes if (each == controller) is is_controller)
    voters = ",".join(f"{node_id}@{node.bootstrap}" for node_id, node in stage.nodes.items())
    before = _leaders(stage)
    with stage.play() as traffic:
        arguments = ("--node-id", str(twin), "--set", f"controller.quorum.voters={voters}")
        with NodeProcess(tmp_path / "second", *arguments, waits=False) as second:
            eventually(lambda: second.process.poll() is not None, "the second one to end")
            assert second.process.returncode == 1
            said = [line for line in second.log.splitlines() if f"living node {twin}" in line]
            assert len(said) == 1
            assert "Traceback" not in second.log
        traffic.wait_for_progress()
        assert _leaders(stage) == before


def test_a_directory_of_another_cluster_is_not_let_in_and_says_so_once(
    stage: Stage,
) -> None:
    node = stage.nodes[VICTIM]
    with stage.play() as traffic:
        assert node.stop() == 0
        identity = node.data_dir / "cluster-id"
        ours = identity.read_text()
        identity.write_text("another\n")
        stage.restart(VICTIM, waits=False)
        eventually(lambda: "is not in cluster another" in node.log, "a word about it")
        traffic.wait_for_progress()
        assert node.process.poll() is None
        assert node.stop() == 0
        addresses = [line.split()[3] for line in node.log.splitlines() if "is not in" in line]
        assert len(addresses) == len(set(addresses))
        identity.write_text(ours)
        stage.restart(VICTIM)


def test_a_node_back_from_a_crash_serves_clients_when_it_knows_what_is_true(
    stage: Stage, tidelog: CommandLine
) -> None:
    """Without the others it never does: it says so, and hangs nobody."""
    before = stage.metadata(seen_by=VICTIM)
    for node in stage.nodes.values():
        node.kill()
    stage.restart(VICTIM, waits=False)
    with _client_of(stage, VICTIM) as client, pytest.raises(ConnectionLost):
        client.request(MetadataRequest(topics=None))
    told = tidelog("cluster", "status", "--bootstrap", stage.nodes[VICTIM].bootstrap)
    assert told.code == 1
    assert "more than half of them must be up" in " ".join(told.errors.split())
    for node_id in stage.nodes:
        if node_id != VICTIM:
            stage.restart(node_id, waits=False)
    after = _first_answer(stage, VICTIM)
    assert [topic.name for topic in after.topics] == [topic.name for topic in before.topics]
    assert after.brokers
    assert _epochs(after) >= _epochs(before)
    stage.wait_until_whole()


def _client_of(stage: Stage, node_id: int) -> RawClient:
    """The process is there before it listens."""
    found: list[RawClient] = []

    def is_listening() -> bool:
        try:
            found.append(RawClient(stage.nodes[node_id]))
        except ConnectionLost:
            return False
        return True

    eventually(is_listening, f"node {node_id} to listen")
    return found[0]


def _first_answer(stage: Stage, node_id: int) -> MetadataResponse:
    """Of the node, however often it closes the connection before."""
    for _ in attempts(f"an answer of node {node_id}"):
        with _client_of(stage, node_id) as client:
            try:
                answer: MetadataResponse = client.request(MetadataRequest(topics=None))
            except ConnectionLost:
                continue
            return answer
    raise AssertionError


def _epochs(answer: MetadataResponse) -> list[int]:
    return [one.leader_epoch for topic in answer.topics for one in topic.partitions]


def test_the_last_of_them_does_not_wait_for_a_cluster_that_is_gone(stage: Stage) -> None:
    nodes = list(stage.nodes.values())
    for node in nodes:
        assert node.stop() == 0
    assert "stopping: waits" in nodes[0].log
    assert "without handing over" not in nodes[0].log
    assert "no majority of the cluster answers: stops without handing over" in nodes[-1].log
    with_mark = [node for node in nodes if (node.data_dir / "clean-shutdown").exists()]
    assert with_mark == nodes


def _leaders(stage: Stage) -> list[tuple[int, int]]:
    return sorted((number, one.leader_id) for number, one in stage.partitions().items())

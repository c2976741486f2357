"""Three nodes as processes, one of them killed, stopped or frozen: nothing acknowledged is lost,
and nothing is there twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.endtoend.cluster_stage import Stage, a_stage
from tests.support.node_driver import batch_of
from tests.support.raw_client import (
    ConnectionLost,
    RawClient,
    error_of_produce,
    fetch_request,
    opened,
    patient_produce,
)

from tidelog.model.errors import ErrorCode

_BY_NAME_PRODUCE, _BY_NAME_FETCH = 9, 12


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with a_stage(tmp_path) as running:
        yield running


@pytest.fixture
def hasty_stage(tmp_path: Path) -> Iterator[Stage]:
    """Nothing is flushed before it counts: a killed process has all of it in the page cache."""
    with a_stage(tmp_path, "--set", "flush.policy=os") as running:
        yield running


def test_killing_a_leader_a_follower_and_the_controller_loses_and_doubles_nothing(
    stage: Stage,
) -> None:
    with stage.play() as traffic:
        for role in ("leader", "follower", "controller", "leader"):
            victim = stage.who_is(role)
            stage.nodes[victim].kill()
            traffic.wait_for_progress()
            stage.restart(victim)
            stage.wait_until_whole()
            traffic.wait_for_progress()


def test_a_rolling_restart_is_not_seen_by_a_client(stage: Stage) -> None:
    with stage.play() as traffic:
        for node_id, node in stage.nodes.items():
            assert node.stop() == 0
            traffic.wait_for_progress()
            stage.restart(node_id)
            stage.wait_until_whole()


def test_killing_all_of_them_at_once_loses_nothing(stage: Stage) -> None:
    with stage.play() as traffic:
        _kill_and_restart_all(stage)
        traffic.wait_for_progress()


def test_killing_all_of_them_loses_nothing_that_was_never_flushed(hasty_stage: Stage) -> None:
    with hasty_stage.play() as traffic:
        for _ in range(2):
            _kill_and_restart_all(hasty_stage)
            traffic.wait_for_progress()
            hasty_stage.wait_until_whole()


def _kill_and_restart_all(stage: Stage) -> None:
    for node in stage.nodes.values():
        node.kill()
    for node_id in stage.nodes:
        stage.restart(node_id, waits=False)
    for node in stage.nodes.values():
        node.wait_ready()


def test_a_leader_that_was_frozen_acknowledges_nothing_and_serves_nothing_stale(
    stage: Stage,
) -> None:
    stage.create_topic("side", partitions=1)
    victim = stage.acting_leader_of("side")
    zombie = stage.nodes[victim]
    with (
        stage.play() as traffic,
        RawClient(zombie) as writer,
        RawClient(zombie) as reader,
    ):
        for number in range(5):
            writer.must_produce("side", b"%d" % number)
        zombie.process.send_signal(signal.SIGSTOP)
        writer.send(patient_produce("side", batch_of(b"to a zombie")), _BY_NAME_PRODUCE)
        reader.send(fetch_request("side", 0), _BY_NAME_FETCH)
        stage.wait_for_other_leader(victim, "side")
        stage.wait_for_other_leader(victim)
        with RawClient(stage.nodes[stage.acting_leader_of("side")]) as elsewhere:
            assert elsewhere.must_produce("side", b"to its successor") == 5
        traffic.wait_for_progress()
        zombie.process.send_signal(signal.SIGCONT)
        assert error_of_produce(writer) is not ErrorCode.NONE
        served = _served(reader)
        stage.wait_until_whole("side")
    with RawClient(stage.nodes[stage.acting_leader_of("side")]) as client:
        truth = client.read("side")
    assert [truth[offset] for offset in range(6)] == [
        *(b"%d" % n for n in range(5)),
        b"to its successor",
    ]
    assert served.items() <= truth.items()
    stage.check_copies("side", 1)


def _served(client: RawClient) -> dict[int, bytes | None]:
    try:
        data = client.receive().responses[0].partitions[0]
    except ConnectionLost:
        return {}
    return opened(data) if data.error_code is ErrorCode.NONE else {}

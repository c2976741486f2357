"""Three nodes as processes, and the network between them cut: silently, as a cable that is pulled,
and with resets, as a firewall does it. Clients reach all nodes all the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.endtoend.cluster_stage import PARTITIONS, TOPIC, Stage, a_stage
from tests.support.eventually import eventually
from tests.support.links import How
from tests.support.node_driver import batch_of
from tests.support.raw_client import RawClient, error_of_produce, patient_produce

from tidelog.model.errors import ErrorCode

_BY_NAME_PRODUCE = 9


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with a_stage(tmp_path, "--set", "replica.lag.time.max.ms=3000") as running:
        yield running


@pytest.mark.parametrize("how", ["silent", "refusing"])
def test_a_leader_that_is_cut_off_acknowledges_nothing_and_follows_when_it_is_back(
    stage: Stage, how: How
) -> None:
    stage.create_topic("side", partitions=1)
    victim = stage.leader_of("side")
    with stage.play() as traffic, RawClient(stage.nodes[victim]) as left_behind:
        assert left_behind.must_produce("side", b"before") == 0
        stage.network.isolate(victim, how)
        left_behind.send(patient_produce("side", batch_of(b"in vain")), _BY_NAME_PRODUCE)
        stage.wait_for_other_leader(victim, "side")
        stage.wait_for_other_leader(victim)
        with RawClient(stage.nodes[stage.leader_of("side", seen_by=_another(stage, victim))]) as ok:
            eventually(lambda: _is_taken(ok, "side", b"meanwhile"), "a leader with a session")
        traffic.wait_for_progress()
        _read_there(stage, victim)
        stage.network.heal()
        assert error_of_produce(left_behind) is not ErrorCode.NONE
        stage.wait_until_whole("side")
    with RawClient(stage.nodes[stage.leader_of("side")]) as client:
        truth = client.read("side")
    assert (truth[0], truth[1]) == (b"before", b"meanwhile")
    stage.check_copies("side", 1)


def test_followers_that_are_cut_off_and_a_pair_that_can_not_see_each_other(stage: Stage) -> None:
    with stage.play() as traffic:
        follower = stage.follower_of(TOPIC)
        stage.network.isolate(follower)
        stage.wait_until_out_of_sync(follower)
        traffic.wait_for_progress()
        stage.network.heal()
        stage.wait_until_whole()
        # A sees B, B sees C, A and C do not see each other: without, then with the controller.
        controller = stage.controller()
        one, other = (node for node in stage.nodes if node != controller)
        stage.network.cut(one, other)
        traffic.wait_for_progress_on_all(PARTITIONS)
        stage.network.heal()
        stage.wait_until_whole()
        controller = stage.controller()
        unseen = next(node for node in stage.nodes if node != controller)
        stage.network.cut(controller, unseen, "refusing")
        stage.wait_until_out_of_sync(unseen)
        traffic.wait_for_progress_on_all(PARTITIONS)
        stage.network.heal()


def _is_taken(client: RawClient, topic: str, value: bytes) -> bool:
    """A leader just elected may have to be heard of by a controller just elected."""
    client.send(patient_produce(topic, batch_of(value)), _BY_NAME_PRODUCE)
    return error_of_produce(client) is ErrorCode.NONE


def _another(stage: Stage, victim: int) -> int:
    return next(node for node in stage.nodes if node != victim)


def _read_there(stage: Stage, victim: int) -> None:
    """What a cut-off leader still shows is what was committed before."""
    with RawClient(stage.nodes[victim]) as client:
        data = client.fetch("side", 1)
        assert not data.records, "an uncommitted record was shown"

"""AlterPartition: only the leader of now, only members of now."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.support.controller_driver import ControllerDriver

from tidelog.controller.isr_changes import IsrChange, IsrMember
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_BROKER_EPOCH, NodeId, PartitionKey, TopicId
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


@pytest.fixture
def driver() -> ControllerDriver:
    driver = ControllerDriver()
    driver.start(1, 2, 3)
    driver.create()
    return driver


def test_the_leader_shrinks_and_expands(driver: ControllerDriver) -> None:
    outcome = driver.alter_isr(1, 3)
    assert outcome.error is ErrorCode.NONE
    assert outcome.state == driver.state()
    assert (driver.state().isr, driver.state().partition_epoch) == ((ONE, THREE), 1)
    assert driver.alter_isr(1, 3, 2).error is ErrorCode.NONE
    assert driver.state().isr == (ONE, THREE, TWO)
    assert driver.state().leader_epoch == 0


def test_the_isr_there_is_already_is_granted_without_a_record(driver: ControllerDriver) -> None:
    length = len(driver.log)
    assert driver.alter_isr(1, 2, 3).error is ErrorCode.NONE
    assert len(driver.log) == length


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"leader": 2}, ErrorCode.INVALID_REQUEST),
        ({"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_another_leader_or_another_time_is_refused(
    driver: ControllerDriver, options: dict[str, int], error: ErrorCode
) -> None:
    driver.alter_isr(1, 2)
    outcome = driver.alter_isr(1, **options)  # type: ignore[arg-type]
    assert (outcome.error, outcome.state) == (error, None)
    assert driver.state().isr == (ONE, TWO)


@pytest.mark.parametrize("members", [(2, 9), (1, 9), (1, 1), ()])
def test_an_isr_that_can_not_be_is_refused(
    driver: ControllerDriver, members: tuple[int, ...]
) -> None:
    assert driver.alter_isr(*members).error is ErrorCode.INVALID_REQUEST


def test_a_leader_that_does_not_name_itself_resigns(driver: ControllerDriver) -> None:
    assert driver.alter_isr(2, 3, leader=1).error is ErrorCode.NEW_LEADER_ELECTED
    state = driver.state()
    assert (state.leader, state.isr, state.elr, state.leader_epoch) == (TWO, (TWO, THREE), (), 1)


def test_who_resigned_is_not_eligible_even_if_too_few_are_left(driver: ControllerDriver) -> None:
    driver.create("few", min_insync_replicas="2")
    assert driver.alter_isr(1, 2, name="few").error is ErrorCode.NONE
    assert driver.alter_isr(2, leader=1, name="few").error is ErrorCode.NEW_LEADER_ELECTED
    state = driver.state("few")
    assert (state.leader, state.isr, state.elr) == (TWO, (TWO,), ())
    assert ONE in state.last_known_elr


def test_nobody_resigns_in_favour_of_who_may_not_lead(driver: ControllerDriver) -> None:
    driver.beat(2, wants_fence=True)
    assert driver.alter_isr(2, leader=1).error is ErrorCode.INELIGIBLE_REPLICA
    assert driver.state().leader == ONE


def test_a_fenced_member_is_refused(driver: ControllerDriver) -> None:
    driver.beat(3, wants_fence=True)
    assert driver.alter_isr(1, 2, 3).error is ErrorCode.INELIGIBLE_REPLICA


def restart(driver: ControllerDriver, node: int) -> int:
    """After a crash; gives the epoch of the life before."""
    before = driver.epochs[NodeId(node)]
    driver.advance(3000, alive=tuple(n for n in (1, 2, 3) if n != node))
    driver.register(node)
    driver.beat(node)
    return before


def test_a_member_that_has_restarted_since_it_fetched_is_refused(driver: ControllerDriver) -> None:
    before = restart(driver, 3)
    outcome = driver.alter_isr(1, 2, 3, epochs={3: before})
    assert outcome.error is ErrorCode.INELIGIBLE_REPLICA
    assert driver.alter_isr(1, 2, 3).error is ErrorCode.NONE


def test_without_the_safeguard_it_is_let_in() -> None:
    driver = ControllerDriver(safeguards=ALL_SAFEGUARDS - {Safeguard.BROKER_EPOCH})
    driver.start(1, 2, 3)
    driver.create()
    before = restart(driver, 3)
    assert driver.alter_isr(1, 2, 3, epochs={3: before}).error is ErrorCode.NONE


def test_a_member_without_an_epoch_is_taken_as_it_is_now(driver: ControllerDriver) -> None:
    driver.alter_isr(1)
    assert driver.alter_isr(1, 2, epochs={2: NO_BROKER_EPOCH}).error is ErrorCode.NONE


def test_a_former_life_of_the_leader_is_refused_whole(driver: ControllerDriver) -> None:
    state = driver.state()
    change = IsrChange(state.key, 0, 0, (IsrMember(ONE),))
    decision = driver.controller.alter_partitions(ONE, driver.epochs[ONE] + 7, [change])
    assert decision.response.error is ErrorCode.STALE_BROKER_EPOCH
    assert (decision.records, decision.response.outcomes) == ([], ())


def test_partitions_nobody_knows_are_refused_one_by_one(driver: ControllerDriver) -> None:
    key = driver.state().key
    asked = [
        IsrChange(PartitionKey(TopicId(UUID(int=9)), 0), 0, 0, (IsrMember(ONE),)),
        IsrChange(PartitionKey(key.topic_id, 7), 0, 0, (IsrMember(ONE),)),
        IsrChange(key, 0, 0, (IsrMember(ONE),)),
        IsrChange(key, 0, 0, (IsrMember(ONE), IsrMember(TWO))),
    ]
    decision = driver.controller.alter_partitions(ONE, driver.epochs[ONE], asked)
    assert [outcome.error for outcome in decision.response.outcomes] == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]
    assert len(decision.records) == 1

"""The newer protocol (KIP-848): members follow, the coordinator assigns."""

from __future__ import annotations

import pytest
from tests.support.group_driver import FixedTopics, GroupDriver

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup


def two_members(driver: GroupDriver) -> None:
    """`a` and `b`, who share the four partitions of `orders` at epoch 2."""
    driver.enter("a")
    driver.enter("b")
    driver.pulse("a", 1)
    driver.pulse("a", 1, owned={"orders": [0, 1]})
    driver.pulse("b", 2)
    assert driver.newer_state() == "Stable"


def test_the_first_member_gets_everything_at_once() -> None:
    driver = GroupDriver()
    answer = driver.enter("a")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, "a", 1)
    assert answer.heartbeat_interval_ms == 5_000
    assert driver.assigned(answer) == {"orders": [0, 1, 2, 3]}
    assert driver.newer_state() == "Stable"


def test_a_quiet_heartbeat_is_answered_without_assignment_and_records() -> None:
    driver = GroupDriver()
    driver.enter("a")
    answer = driver.pulse("a", 1)
    assert (answer.member_epoch, answer.assignment) == (1, None)
    assert driver.decision.records == []


def test_partitions_are_given_only_after_they_were_given_up() -> None:
    driver = GroupDriver()
    driver.enter("a")
    answer = driver.enter("b")
    assert (answer.member_epoch, driver.assigned(answer)) == (2, {})
    assert driver.newer_state() == "Reconciling"
    answer = driver.pulse("a", 1)
    assert (answer.member_epoch, driver.assigned(answer)) == (1, {"orders": [0, 1]})
    assert driver.assigned(driver.pulse("b", 2)) is None
    assert driver.pulse("a", 1).member_epoch == 1
    answer = driver.pulse("a", 1, owned={"orders": [0, 1]})
    assert (answer.member_epoch, answer.assignment) == (2, None)
    assert driver.assigned(driver.pulse("b", 2)) == {"orders": [2, 3]}
    assert driver.newer_state() == "Stable"


def test_a_member_that_does_not_give_up_in_time_is_thrown_out() -> None:
    driver = GroupDriver()
    driver.enter("a", timeout_ms=8_000)
    driver.enter("b")
    driver.pulse("a", 1)
    for _ in range(4):
        assert driver.assigned(driver.pulse("b", 2)) is None
        driver.advance(2_000)
    assert driver.pulse("a", 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    answer = driver.pulse("b", 2)
    assert (answer.member_epoch, driver.assigned(answer)) == (3, {"orders": [0, 1, 2, 3]})


def test_a_silent_member_is_thrown_out_at_the_session_timeout() -> None:
    driver = GroupDriver()
    two_members(driver)
    driver.advance(44_999)
    assert driver.pulse("b", 2).error_code is ErrorCode.NONE
    driver.advance(1)
    assert driver.newer_state() == "Assigning"
    assert driver.assigned(driver.pulse("b", 2)) == {"orders": [0, 1, 2, 3]}
    assert driver.pulse("a", 2).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_makes_room() -> None:
    driver = GroupDriver()
    two_members(driver)
    answer = driver.pulse("a", -1)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, -1)
    answer = driver.pulse("b", 2)
    assert (answer.member_epoch, driver.assigned(answer)) == (3, {"orders": [0, 1, 2, 3]})


def test_the_last_to_leave_leaves_an_empty_group() -> None:
    driver = GroupDriver()
    driver.enter("a")
    driver.pulse("a", -1)
    assert driver.newer_state() == "Empty"
    assert driver.pulse("a", 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.enter("a").member_epoch == 3


def test_a_wrong_epoch_is_fenced() -> None:
    driver = GroupDriver()
    two_members(driver)
    assert driver.pulse("b", 3).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.pulse("b", 1).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.pulse("nobody", 2).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.pulse("a", 1, group="other").error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_lost_our_answer_may_say_its_former_epoch() -> None:
    driver = GroupDriver()
    two_members(driver)
    answer = driver.pulse(
        "a", 1, topics=["orders"], owned={"orders": [0]}, rebalance_timeout_ms=30_000
    )
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 2)
    assert driver.assigned(answer) == {"orders": [0, 1]}
    answer = driver.pulse("a", 1, owned={"orders": [3]})
    assert answer.error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_may_start_over_at_any_time() -> None:
    driver = GroupDriver()
    two_members(driver)
    answer = driver.enter("a")
    assert (answer.member_epoch, driver.assigned(answer)) == (2, {"orders": [0, 1]})


def test_another_subscription_is_another_epoch() -> None:
    driver = GroupDriver()
    driver.enter("a")
    answer = driver.pulse("a", 1, topics=["orders", "invoices"])
    assert answer.member_epoch == 2
    assert driver.assigned(answer) == {"orders": [0, 1, 2, 3], "invoices": [0, 1]}
    answer = driver.pulse("a", 2, topics=["invoices"])
    assert (answer.member_epoch, driver.assigned(answer)) == (2, {"invoices": [0, 1]})
    assert driver.pulse("a", 2, owned={"invoices": [0, 1]}).member_epoch == 3


def test_new_partitions_are_given_out() -> None:
    driver = GroupDriver()
    driver.enter("a")
    driver.topics.grow("orders", 6)
    answer = driver.pulse("a", 1)
    assert (answer.member_epoch, driver.assigned(answer)) == (2, {"orders": [0, 1, 2, 3, 4, 5]})


def test_a_topic_that_comes_later_is_given_out_when_it_comes() -> None:
    driver = GroupDriver()
    assert driver.assigned(driver.enter("a", "later")) == {}
    driver.topics.create("later", 1)
    assert driver.assigned(driver.pulse("a", 1)) == {"later": [0]}


def test_a_topic_created_again_is_another_topic() -> None:
    driver = GroupDriver()
    driver.enter("a")
    old = driver.topic_id("orders")
    driver.topics.delete("orders")
    driver.topics.create("orders", 1)
    answer = driver.pulse("a", 1)
    assert (answer.member_epoch, driver.assigned(answer)) == (1, {})
    answer = driver.pulse("a", 1, owned={})
    assert (answer.member_epoch, driver.assigned(answer)) == (2, {"orders": [0]})
    assert driver.topic_id("orders") != old


def test_changes_of_other_topics_do_not_concern_a_group() -> None:
    driver = GroupDriver()
    driver.enter("a")
    driver.topics.create("other", 3)
    assert driver.pulse("a", 1).member_epoch == 1
    assert driver.decision.records == []


def test_a_regular_expression_is_resolved_here_and_follows_the_topics() -> None:
    driver = GroupDriver(FixedTopics(**{"log-a": 1, "log-b": 1, "other": 1, "__log-x": 1}))
    answer = driver.enter("a", regex="log-.*|__.*")
    assert driver.assigned(answer) == {"log-a": [0], "log-b": [0]}
    driver.topics.create("log-c", 2)
    driver.topics.create("a-log-d", 2)
    answer = driver.pulse("a", 1)
    assert driver.assigned(answer) == {"log-a": [0], "log-b": [0], "log-c": [0, 1]}
    answer = driver.pulse("a", 2, regex="", topics=["other"])
    assert driver.assigned(answer) == {}
    assert driver.assigned(driver.pulse("a", 2, owned={})) == {"other": [0]}


@pytest.mark.parametrize("regex", ["(", "a" * 1_001, "[z-a]"])
def test_a_bad_regular_expression_is_refused(regex: str) -> None:
    answer = GroupDriver().enter("a", regex=regex)
    assert answer.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message


def test_the_assignor_most_members_ask_for_is_used() -> None:
    driver = GroupDriver(FixedTopics(x=3, y=3))
    driver.enter("a", "x", "y", assignor="range")
    assert driver.answer("consumer_group_describe", "g").assignor_name == "range"
    driver.enter("b", "x", "y", assignor="range")
    assert driver.assigned(driver.pulse("a", 1)) == {"x": [0, 1], "y": [0, 1]}
    assert driver.enter("c", assignor="mine").error_code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_full_group_takes_nobody() -> None:
    driver = GroupDriver(group_consumer_max_size=1)
    driver.enter("a")
    assert driver.enter("b").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.enter("a").error_code is ErrorCode.NONE


def test_a_member_of_the_first_version_is_given_an_id() -> None:
    answer = GroupDriver().enter("")
    assert answer.error_code is ErrorCode.NONE
    assert answer.member_id is not None
    assert answer.member_id.startswith("client-")


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": ""},
        {"epoch": -3},
        {"epoch": 1, "member_id": ""},
        {"instance": ""},
        {"epoch": -2},
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": {"orders": [0]}},
        {"topics": None},
    ],
)
def test_requests_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    arguments: dict[str, object] = {
        "member_id": "a",
        "epoch": 0,
        "topics": ["orders"],
        "owned": {},
        "rebalance_timeout_ms": 1_000,
        **wrong,
    }
    answer = GroupDriver().pulse(**arguments)  # type: ignore[arg-type]
    assert answer.error_code is ErrorCode.INVALID_REQUEST


def test_commits_and_reads_are_for_members_at_their_present_epoch() -> None:
    driver = GroupDriver()
    two_members(driver)
    assert driver.commit(5, member_id="a", generation=2) is ErrorCode.NONE
    assert driver.commit(6, member_id="a", generation=1) is ErrorCode.STALE_MEMBER_EPOCH
    assert driver.commit(6, member_id="c", generation=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(6) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.committed() == (5, "")

    def read(member_id: str | None, epoch: int) -> ErrorCode:
        request = OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=None
        )
        error: ErrorCode = driver.answer("offset_fetch", request).error_code
        return error

    assert read("a", 2) is ErrorCode.NONE
    assert read(None, -1) is ErrorCode.NONE
    assert read("a", 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert read("c", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_comes_back_to_what_it_had() -> None:
    driver = GroupDriver()
    driver.enter("a", instance="one")
    driver.enter("b")
    driver.pulse("a", 1)
    driver.pulse("a", 1, owned={"orders": [0, 1]})
    driver.pulse("b", 2)
    assert driver.enter("a2", instance="one").error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.pulse("a", -2, instance="one").member_epoch == -2
    assert driver.pulse("b", 2).error_code is ErrorCode.NONE
    answer = driver.enter("a2", instance="one")
    assert (answer.member_epoch, driver.assigned(answer)) == (2, {"orders": [0, 1]})
    assert driver.pulse("a", 2, instance="one").error_code is ErrorCode.FENCED_INSTANCE_ID
    assert driver.pulse("a", -1, instance="one").error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.newer_state() == "Stable"


def test_a_static_member_that_does_not_come_back_loses_its_place() -> None:
    driver = GroupDriver()
    driver.enter("a", instance="one")
    driver.pulse("a", -2, instance="one")
    driver.advance(45_000)
    assert driver.newer_state() == "Empty"


def test_a_group_is_described_with_what_members_have_and_are_to_have() -> None:
    driver = GroupDriver()
    driver.enter("a")
    driver.enter("b", instance="two")
    driver.pulse("a", 1)
    described = driver.answer("consumer_group_describe", "g")
    assert (described.group_epoch, described.assignment_epoch) == (2, 2)
    a, b = described.members
    assert a.assignment.topic_partitions[0].partitions == [0, 1]
    assert b.assignment.topic_partitions == []
    assert b.target_assignment.topic_partitions[0].topic_name == "orders"
    assert b.target_assignment.topic_partitions[0].partitions == [2, 3]
    assert (b.instance_id, b.client_id, b.member_type) == ("two", "client", 1)
    assert driver.state() == "Dead"
    missing = driver.answer("consumer_group_describe", "other")
    assert missing.error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_everything_survives_a_restart_of_the_node() -> None:
    driver = GroupDriver()
    driver.enter("a", regex="ord.*")
    driver.enter("b")
    driver.pulse("a", 1)
    driver.restart()
    assert driver.pulse("a", 1, owned={"orders": [0, 1]}).member_epoch == 2
    driver.restart()
    assert driver.assigned(driver.pulse("b", 2)) == {"orders": [2, 3]}


def test_after_a_restart_a_member_has_its_full_time_to_give_up() -> None:
    driver = GroupDriver()
    driver.enter("a", timeout_ms=8_000)
    driver.enter("b")
    driver.pulse("a", 1)
    driver.advance(7_000)
    driver.restart()
    driver.advance(7_999)
    assert driver.pulse("a", 1).error_code is ErrorCode.NONE
    driver.advance(1)
    assert driver.pulse("a", 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_is_deleted_with_all_its_records() -> None:
    driver = GroupDriver()
    driver.enter("a", regex="ord.*")
    assert driver.answer("delete_group", "g").error_code is ErrorCode.NON_EMPTY_GROUP
    driver.commit(5, member_id="a", generation=1)
    driver.pulse("a", -1)
    assert driver.answer("delete_group", "g").error_code is ErrorCode.NONE
    latest = {record.key: record.value for record in driver.log}
    assert all(value is None for value in latest.values())
    assert driver.newer_state() == "Dead"


def test_offsets_are_kept_for_the_retention_after_the_last_member_left() -> None:
    driver = GroupDriver(offsets_retention_ms=1_000_000, offsets_retention_check_interval_ms=10_000)
    driver.enter("a")
    driver.commit(5, member_id="a", generation=1)
    for _ in range(50):
        driver.advance(40_000)
        driver.pulse("a", 1)
    assert driver.committed() == (5, "")
    driver.pulse("a", -1)
    driver.restart()
    driver.advance(990_000)
    assert driver.committed() == (5, "")
    driver.advance(20_000)
    assert driver.committed() == (-1, "")
    assert driver.newer_state() == "Dead"


def test_a_member_that_waits_for_others_is_asked_to_come_again_soon() -> None:
    driver = GroupDriver()
    driver.enter("a")
    assert driver.enter("b").heartbeat_interval_ms == 500
    driver.pulse("a", 1)
    assert driver.pulse("a", 1, owned={"orders": [0, 1]}).heartbeat_interval_ms == 5_000
    assert driver.pulse("b", 2).heartbeat_interval_ms == 5_000


def test_a_large_group_is_not_assigned_anew_for_every_member_that_comes() -> None:
    driver = GroupDriver(FixedTopics(orders=60))
    names = [f"m{number:02}" for number in range(60)]
    epochs = {name: driver.enter(name).member_epoch for name in names}
    assert epochs["m59"] == epochs["m50"] == 51
    assert driver.newer_state() == "Assigning"
    driver.advance(60)
    for _ in range(3):
        for name in names:
            owned = driver.has("g", name)
            epochs[name] = driver.pulse(name, epochs[name], owned=owned).member_epoch
    assert driver.newer_state() == "Stable"
    assert set(epochs.values()) == {60}
    assert all(sum(map(len, driver.has("g", name).values())) == 1 for name in names)


def test_a_groups_own_settings_hold_for_its_members_and_within_the_nodes_bounds() -> None:
    driver = GroupDriver(group_consumer_max_session_timeout_ms=60_000)
    driver.topics.configs["g"] = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "9000",
    }
    assert driver.enter("a").heartbeat_interval_ms == 9_000
    driver.advance(49_999)
    assert driver.pulse("a", 1).error_code is ErrorCode.NONE
    driver.topics.configs["g"] = {"consumer.session.timeout.ms": "90000"}
    assert driver.pulse("a", 1).heartbeat_interval_ms == 5_000
    driver.advance(59_999)
    assert driver.pulse("a", 1).error_code is ErrorCode.NONE
    driver.advance(60_000)
    assert driver.pulse("a", 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID

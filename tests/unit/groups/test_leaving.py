"""LeaveGroup, and what is left behind."""

from __future__ import annotations

from tests.support.group_driver import GroupDriver

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.leave_group import LeaveGroupRequest


def test_the_others_rebalance_when_a_member_leaves() -> None:
    driver = GroupDriver()
    first, second = driver.stable(None, None)
    assert driver.leave(second).members[0].error_code is ErrorCode.NONE
    assert driver.beat(first, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    answer = driver.joined(driver.join(first))
    assert (answer.generation_id, len(answer.members)) == (3, 1)


def test_the_last_member_leaves_an_empty_group_of_the_next_generation() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    driver.leave(member)
    assert driver.state() == "Empty"
    assert driver.joined(driver.join()).generation_id == 3


def test_several_leave_with_one_request_and_one_record() -> None:
    driver = GroupDriver()
    first, second, third = driver.stable(None, None, None)
    answer = driver.leave(second, third, "nobody")
    assert [member.error_code for member in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert len(driver.decision.records) == 1
    assert driver.beat(first, 3) is ErrorCode.REBALANCE_IN_PROGRESS


def test_old_versions_name_one_member_and_get_one_error() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    request = LeaveGroupRequest(group_id="g", member_id="nobody")
    assert driver.answer("leave_group", request).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    request = LeaveGroupRequest(group_id="g", member_id=member)
    assert driver.answer("leave_group", request).error_code is ErrorCode.NONE
    assert driver.state() == "Empty"


def test_an_id_that_was_only_given_out_can_be_given_back() -> None:
    driver = GroupDriver()
    member_id = driver.joined(driver.join(two_step=True)).member_id
    waiting = driver.join()
    assert driver.leave(member_id).members[0].error_code is ErrorCode.NONE
    assert driver.joined(waiting).generation_id == 1


def test_a_member_that_leaves_while_it_waits_hears_that_it_is_not_known() -> None:
    driver = GroupDriver()
    first, second = driver.stable(None, None)
    waiting = driver.join(first)
    driver.leave(first)
    assert driver.joined(waiting).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.joined(driver.join(second)).leader == second


def test_leaving_completes_a_rebalance_that_waited_for_the_leaver() -> None:
    driver = GroupDriver()
    first, second = driver.stable(None, None)
    waiting = driver.join(first)
    driver.leave(second)
    assert driver.joined(waiting).generation_id == 3


def test_who_has_left_is_gone_also_after_a_restart_of_the_node() -> None:
    driver = GroupDriver()
    first, second = driver.stable(None, None)
    driver.leave(second)
    driver.restart()
    assert driver.beat(second, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat(first, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_nobody_ever_completed_joining_leaves_no_trace() -> None:
    driver = GroupDriver(group_initial_rebalance_delay_ms=3_000)
    member = driver.joined(driver.join(two_step=True)).member_id
    driver.join(member)
    driver.leave(member)
    assert driver.state() == "Dead"
    assert driver.log == []

"""Static members (KIP-345): a restart within the session costs nobody a rebalance."""

from __future__ import annotations

from tests.support.group_driver import GroupDriver, subscription

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_subscription,
)
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity


def test_a_restarted_member_has_its_share_back_without_a_rebalance() -> None:
    driver = GroupDriver()
    leader, _ = driver.stable(None, "b")
    answer = driver.joined(driver.join(instance="b"))
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 2, leader)
    assert driver.state() == "Stable"
    assert driver.synced(driver.sync(answer.member_id, 2)).assignment == b"share of 1"
    assert driver.beat(leader, 2) is ErrorCode.NONE


def test_the_former_self_is_fenced() -> None:
    driver = GroupDriver()
    _, old = driver.stable(None, "b")
    driver.join(instance="b")
    assert driver.beat(old, 2, instance="b") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.commit(5, member_id=old, generation=2, instance="b") is (
        ErrorCode.FENCED_INSTANCE_ID
    )
    answer = driver.joined(driver.join(old, instance="b"))
    assert answer.error_code is ErrorCode.FENCED_INSTANCE_ID
    answer2 = driver.synced(driver.sync(old, 2, instance="b"))
    assert answer2.error_code is ErrorCode.FENCED_INSTANCE_ID
    assert driver.beat(old, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_former_self_that_still_waits_hears_it() -> None:
    driver = GroupDriver()
    _, old = driver.stable(None, "b")
    driver.join()
    waiting = driver.join(old, instance="b")
    driver.join(instance="b")
    assert driver.joined(waiting).error_code is ErrorCode.FENCED_INSTANCE_ID


def test_a_former_self_that_waits_for_its_share_hears_it() -> None:
    driver = GroupDriver()
    member = driver.joined(driver.join(instance="a")).member_id
    other = driver.join(instance="b")
    driver.join(member, instance="a")
    waiting = driver.sync(driver.joined(other).member_id, 2)
    driver.join(instance="b")
    assert driver.synced(waiting).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert driver.state() == "PreparingRebalance"


def test_a_restarted_leader_that_can_be_told_so_does_not_assign_anew() -> None:
    driver = GroupDriver()
    driver.stable("a", "b")
    answer = driver.joined(driver.join(instance="a", may_skip_assignment=True))
    assert (answer.leader, answer.skip_assignment) == (answer.member_id, True)
    assert [m.group_instance_id for m in answer.members] == ["b", "a"]
    assert driver.synced(driver.sync(answer.member_id, 2)).assignment == b"share of 0"


def test_an_older_restarted_leader_takes_itself_for_a_follower() -> None:
    driver = GroupDriver()
    old, _ = driver.stable("a", "b")
    answer = driver.joined(driver.join(instance="a"))
    assert (answer.leader, answer.members, answer.skip_assignment) == (old, [], False)
    assert driver.synced(driver.sync(answer.member_id, 2)).assignment == b"share of 0"


def test_owned_partitions_in_the_metadata_are_no_change_of_mind() -> None:
    def metadata(*owned: int) -> dict[str, bytes]:
        partitions = [TopicPartition(topic="orders", partitions=list(owned))] if owned else []
        said = ConsumerProtocolSubscription(topics=["orders"], owned_partitions=partitions)
        return {"cooperative-sticky": encode_subscription(said, 1)}

    driver = GroupDriver()
    driver.stable("a", protocols=metadata(0, 1))
    driver.join(instance="a", protocols=metadata())
    assert driver.state() == "Stable"


def test_another_subscription_after_a_restart_begins_a_rebalance() -> None:
    driver = GroupDriver()
    leader, _ = driver.stable(None, "b")
    driver.join(instance="b", protocols={"range": subscription("invoices")})
    assert driver.beat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_another_protocol_after_a_restart_begins_a_rebalance() -> None:
    driver = GroupDriver()
    driver.stable("a")
    answer = driver.joined(driver.join(instance="a", protocols={"sticky": b""}))
    assert (answer.generation_id, answer.protocol_name) == (2, "sticky")


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_ends() -> None:
    driver = GroupDriver()
    first, absent = driver.stable(None, "b", session_timeout_ms=60_000)
    driver.join(session_timeout_ms=60_000)
    again = driver.join(first, session_timeout_ms=60_000)
    driver.advance(30_000)
    assert absent in [member.member_id for member in driver.joined(again).members]
    driver.sync(first, 3, {first: b"", absent: b"for b"})
    assert driver.synced(driver.sync(absent, 3, instance="b")).assignment == b"for b"


def test_when_only_absent_static_members_are_left_the_rebalance_goes_on() -> None:
    driver = GroupDriver()
    first, absent = driver.stable(None, "b", session_timeout_ms=100_000)
    driver.leave(first)
    driver.advance(90_000)
    assert driver.state() == "PreparingRebalance"
    assert driver.joined(driver.join(absent, instance="b")).leader == absent


def test_a_static_member_takes_its_former_place_also_while_members_join() -> None:
    driver = GroupDriver()
    first, _ = driver.stable(None, "b")
    driver.join()
    restarted = driver.join(instance="b")
    answer = driver.joined(driver.join(first))
    assert answer.generation_id == driver.joined(restarted).generation_id == 3
    assert len(answer.members) == 3


def test_a_tool_sends_a_static_member_away_by_its_instance_id() -> None:
    driver = GroupDriver()
    leader, _ = driver.stable(None, "b")
    request = LeaveGroupRequest(
        group_id="g",
        members=[
            MemberIdentity(member_id="", group_instance_id="b"),
            MemberIdentity(member_id="", group_instance_id="c"),
            MemberIdentity(member_id=leader, group_instance_id="b"),
        ],
    )
    answer = driver.answer("leave_group", request)
    assert [member.error_code for member in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert driver.beat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_restart_of_the_node_does_not_forget_who_is_static() -> None:
    driver = GroupDriver()
    leader, _ = driver.stable(None, "b")
    driver.restart()
    answer = driver.joined(driver.join(instance="b"))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)
    assert driver.beat(leader, 2) is ErrorCode.NONE

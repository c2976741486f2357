"""JoinGroup: who may come, and what it leads to."""

from __future__ import annotations

from tests.support.group_driver import GroupDriver, subscription

from tidelog.model.errors import ErrorCode


def test_the_first_member_leads_generation_one() -> None:
    driver = GroupDriver()
    answer = driver.joined(driver.join())
    assert answer.error_code is ErrorCode.NONE
    assert (answer.generation_id, answer.leader) == (1, answer.member_id)
    assert [member.member_id for member in answer.members] == [answer.member_id]
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_an_id_is_required_of_clients_that_know_the_two_steps() -> None:
    driver = GroupDriver()
    first = driver.joined(driver.join(two_step=True))
    assert first.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("client-")
    second = driver.joined(driver.join(first.member_id, two_step=True))
    assert (second.error_code, second.member_id) == (ErrorCode.NONE, first.member_id)


def test_an_id_that_is_not_used_expires_with_the_session() -> None:
    driver = GroupDriver()
    member_id = driver.joined(driver.join(two_step=True)).member_id
    driver.advance(10_001)
    assert driver.joined(driver.join(member_id)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_holds_up_the_others_until_it_expires() -> None:
    driver = GroupDriver()
    driver.join(two_step=True)
    waiting = driver.join()
    assert waiting not in driver.replies
    driver.advance(10_001)
    assert driver.joined(waiting).generation_id == 1


def test_an_unknown_id_is_refused() -> None:
    driver = GroupDriver()
    assert driver.joined(driver.join("nobody")).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_waits_for_more_members_and_longer_while_they_come() -> None:
    driver = GroupDriver(group_initial_rebalance_delay_ms=3_000)
    first = driver.join()
    driver.advance(2_000)
    second = driver.join()
    driver.advance(2_000)
    assert first not in driver.replies
    driver.advance(2_000)
    assert driver.joined(first).generation_id == driver.joined(second).generation_id == 1
    assert len(driver.joined(first).members) == 2
    assert driver.joined(second).members == []


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    driver = GroupDriver(group_initial_rebalance_delay_ms=3_000)
    first = driver.join(rebalance_timeout_ms=7_000)
    for _ in range(7):
        driver.advance(999)
        driver.join(rebalance_timeout_ms=7_000)
    driver.advance(1_000)
    assert driver.joined(first).generation_id == 1


def test_a_newcomer_waits_until_all_members_have_come_again() -> None:
    driver = GroupDriver()
    (first,) = driver.stable(None)
    newcomer = driver.join()
    assert newcomer not in driver.replies
    assert driver.beat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.join(first)
    assert driver.joined(again).generation_id == driver.joined(newcomer).generation_id == 2
    assert driver.joined(newcomer).leader == first


def test_members_that_do_not_come_again_are_dropped_at_the_rebalance_timeout() -> None:
    driver = GroupDriver()
    first, second = driver.stable(None, None)
    newcomer = driver.join()
    driver.join(first)
    for _ in range(6):
        driver.beat(second, 2)
        driver.advance(5_000)
    answer = driver.joined(newcomer)
    assert answer.generation_id == 3
    assert driver.beat(second, 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_come_again_is_succeeded() -> None:
    driver = GroupDriver()
    leader, follower = driver.stable(None, None)
    driver.join()
    again = driver.join(follower)
    driver.advance(30_000)
    answer = driver.joined(again)
    assert answer.leader != leader
    assert leader not in [member.member_id for member in answer.members]


def test_a_follower_that_lost_the_answer_is_told_the_same_again() -> None:
    driver = GroupDriver()
    leader, follower = driver.stable(None, None)
    answer = driver.joined(driver.join(follower))
    assert (answer.generation_id, answer.leader, answer.members) == (2, leader, [])
    assert driver.state() == "Stable"


def test_a_leader_that_joins_again_begins_a_rebalance() -> None:
    driver = GroupDriver()
    leader, _ = driver.stable(None, None)
    driver.join(leader)
    assert driver.state() == "PreparingRebalance"


def test_a_follower_with_another_subscription_begins_a_rebalance() -> None:
    driver = GroupDriver()
    _, follower = driver.stable(None, None)
    driver.join(follower, protocols={"range": subscription("invoices")})
    assert driver.state() == "PreparingRebalance"


def test_a_member_may_join_again_while_the_leader_assigns() -> None:
    driver = GroupDriver()
    leader = driver.joined(driver.join()).member_id
    assert driver.state() == "CompletingRebalance"
    assert driver.joined(driver.join(leader)).generation_id == 1
    driver.join(leader, protocols={"range": subscription("invoices")})
    assert driver.state() == "CompletingRebalance"
    assert driver.beat(leader, 2) is ErrorCode.NONE


def test_the_protocol_with_most_votes_among_those_all_know_wins() -> None:
    driver = GroupDriver(group_initial_rebalance_delay_ms=1_000)
    data = subscription("orders")
    tickets = [
        driver.join(protocols={"sticky": data, "range": data, "mine": data}),
        driver.join(protocols={"range": data, "sticky": data}),
        driver.join(protocols={"range": data, "sticky": data}),
    ]
    driver.advance(5_000)
    assert [driver.joined(ticket).protocol_name for ticket in tickets] == ["range"] * 3


def test_a_member_without_a_protocol_in_common_is_refused() -> None:
    driver = GroupDriver()
    driver.stable(None)
    ticket = driver.join(protocols={"mine": b""})
    assert driver.joined(ticket).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    ticket = driver.join(protocol_type="connect")
    assert driver.joined(ticket).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    ticket = driver.join(protocols={})
    assert driver.joined(ticket).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_takes_members_of_any_kind() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    driver.leave(member)
    answer = driver.joined(driver.join(protocol_type="connect", protocols={"p": b"x"}))
    assert (answer.error_code, answer.protocol_type) == (ErrorCode.NONE, "connect")


def test_session_timeouts_have_bounds() -> None:
    driver = GroupDriver()
    for timeout in (5_999, 1_800_001):
        ticket = driver.join(session_timeout_ms=timeout)
        assert driver.joined(ticket).error_code is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_without_a_name_is_refused() -> None:
    driver = GroupDriver()
    assert driver.joined(driver.join(group="")).error_code is ErrorCode.INVALID_GROUP_ID


def test_a_full_group_takes_nobody_but_its_members() -> None:
    driver = GroupDriver(group_max_size=1)
    (member,) = driver.stable("one")
    assert driver.joined(driver.join()).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.joined(driver.join(member, instance="one")).error_code is ErrorCode.NONE
    assert driver.joined(driver.join(instance="one")).error_code is ErrorCode.NONE


def test_a_newcomer_whose_connection_broke_gets_no_share() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    lost = driver.join()
    driver.coordinator.abandon(lost)
    answer = driver.joined(driver.join(member))
    assert [one.member_id for one in answer.members] == [member]
    assert lost not in driver.replies


def test_a_member_that_asks_twice_is_answered_on_the_second_question() -> None:
    driver = GroupDriver()
    first, second = driver.stable(None, None)
    early = driver.join(first)
    late = driver.join(first)
    assert driver.joined(early).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join(second)
    assert driver.joined(late).generation_id == 3


def test_a_generation_is_recorded_before_anybody_hears_of_it() -> None:
    driver = GroupDriver()
    member = driver.joined(driver.join()).member_id
    assert driver.decision.records
    driver.restart()
    assert driver.state() == "PreparingRebalance"
    assert driver.joined(driver.join(member)).generation_id == 2

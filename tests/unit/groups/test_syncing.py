"""SyncGroup and Heartbeat: the life of a member between two joins."""

from __future__ import annotations

from tests.support.group_driver import GroupDriver

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.sync_group import SyncGroupRequest


def completing(driver: GroupDriver) -> tuple[str, str, int]:
    """A group of two whose leader has not assigned yet: leader, follower, generation."""
    leader = driver.joined(driver.join()).member_id
    newcomer = driver.join()
    again = driver.join(leader)
    answer = driver.joined(again)
    return leader, driver.joined(newcomer).member_id, answer.generation_id


def test_followers_wait_for_the_leader_and_get_their_share() -> None:
    driver = GroupDriver()
    leader, follower, generation = completing(driver)
    waiting = driver.sync(follower, generation)
    assert waiting not in driver.replies
    own = driver.sync(leader, generation, {leader: b"all", follower: b"some"})
    assert driver.synced(own).assignment == b"all"
    assert driver.synced(waiting).assignment == b"some"
    assert driver.synced(waiting).protocol_name == "range"
    assert driver.state() == "Stable"


def test_a_late_follower_gets_its_share_at_once() -> None:
    driver = GroupDriver()
    leader, follower, generation = completing(driver)
    driver.sync(leader, generation, {follower: b"some"})
    assert driver.synced(driver.sync(follower, generation)).assignment == b"some"


def test_whom_the_leader_forgot_gets_nothing() -> None:
    driver = GroupDriver()
    leader, follower, generation = completing(driver)
    driver.sync(leader, generation, {leader: b"all"})
    answer = driver.synced(driver.sync(follower, generation))
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"")


def test_a_sync_of_another_generation_is_refused() -> None:
    driver = GroupDriver()
    _, follower, generation = completing(driver)
    for wrong in (generation - 1, generation + 1, -1):
        answer = driver.synced(driver.sync(follower, wrong))
        assert answer.error_code is ErrorCode.ILLEGAL_GENERATION


def test_a_sync_of_nobody_is_refused() -> None:
    driver = GroupDriver()
    assert driver.synced(driver.sync("nobody", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    _, _, generation = completing(driver)
    answer = driver.synced(driver.sync("nobody", generation))
    assert answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_with_another_protocol_is_refused() -> None:
    driver = GroupDriver()
    leader, _, generation = completing(driver)
    for protocol_type, name in (("connect", "range"), ("consumer", "sticky")):
        request = SyncGroupRequest(
            group_id="g",
            generation_id=generation,
            member_id=leader,
            protocol_type=protocol_type,
            protocol_name=name,
        )
        answer = driver.answer("sync_group", request)
        assert answer.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_those_who_wait_for_the_leader_are_sent_back_when_somebody_joins() -> None:
    driver = GroupDriver()
    _, follower, generation = completing(driver)
    waiting = driver.sync(follower, generation)
    driver.join()
    assert driver.synced(waiting).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    answer = driver.synced(driver.sync(follower, generation))
    assert answer.error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_dropped_at_the_rebalance_timeout() -> None:
    driver = GroupDriver()
    leader, follower, generation = completing(driver)
    driver.sync(leader, generation, {leader: b"all"})
    for _ in range(6):
        driver.beat(leader, generation)
        assert driver.beat(follower, generation) is ErrorCode.NONE
        driver.advance(5_000)
    assert driver.beat(follower, generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat(leader, generation) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_loses_its_place() -> None:
    driver = GroupDriver()
    leader, follower, generation = completing(driver)
    waiting = driver.sync(follower, generation)
    for _ in range(6):
        driver.beat(leader, generation)
        driver.advance(5_000)
    assert driver.synced(waiting).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.joined(driver.join(follower)).leader == follower


def test_heartbeats_keep_a_member_in_the_group() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    for _ in range(5):
        driver.advance(9_999)
        assert driver.beat(member, 1) is ErrorCode.NONE


def test_a_silent_member_is_dropped_at_its_session_timeout() -> None:
    driver = GroupDriver()
    first, second = driver.stable(None, None)
    driver.advance(9_999)
    driver.beat(first, 2)
    driver.advance(1)
    assert driver.beat(first, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.beat(second, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_session_is_counted_on_the_monotonic_clock() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    driver.wall_ms += 10**9
    driver.take(driver.coordinator.tick(driver.now))
    assert driver.beat(member, 1) is ErrorCode.NONE


def test_a_member_that_waits_for_us_does_not_time_out() -> None:
    driver = GroupDriver()
    _, second = driver.stable(None, None)
    waiting = driver.join(protocols={"range": b"other"}, rebalance_timeout_ms=300_000)
    for _ in range(4):
        driver.beat(second, 2)
        driver.advance(9_000)
    assert waiting not in driver.replies
    assert driver.joined(driver.join(second)).error_code is ErrorCode.NONE


def test_a_heartbeat_of_another_generation_is_refused() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    assert driver.beat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert driver.beat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat(member, 1, group="other") is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_get_a_full_session_after_a_restart_of_the_node() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    driver.advance(9_000)
    driver.restart()
    driver.advance(9_999)
    assert driver.beat(member, 1) is ErrorCode.NONE
    driver.advance(10_000)
    assert driver.beat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_shares_survive_a_restart_of_the_node() -> None:
    driver = GroupDriver()
    _, follower = driver.stable(None, None)
    driver.restart()
    assert driver.synced(driver.sync(follower, 2)).assignment == b"share of 1"

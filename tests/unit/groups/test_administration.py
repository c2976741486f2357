"""Groups listed, described and deleted."""

from __future__ import annotations

from tests.support.group_driver import GroupDriver, subscription

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.list_groups import ListGroupsRequest


def listed(driver: GroupDriver, **filters: list[str]) -> list[tuple[str, str, str, str]]:
    answer = driver.answer("list_groups", ListGroupsRequest(**filters))
    return [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in answer.groups]


def test_groups_are_listed_with_their_state_and_type() -> None:
    driver = GroupDriver()
    driver.commit(1, group="simple")
    driver.stable(None, group="busy")
    driver.leave(*driver.stable(None, group="idle"), group="idle")
    everything = [
        ("busy", "consumer", "Stable", "classic"),
        ("idle", "consumer", "Empty", "classic"),
        ("simple", "", "Empty", "classic"),
    ]
    assert listed(driver) == everything
    assert listed(driver, states_filter=["stable"]) == everything[:1]
    assert listed(driver, types_filter=["Classic"]) == everything
    assert listed(driver, types_filter=["consumer"]) == []
    driver.restart()
    assert listed(driver) == everything


def test_a_stable_group_is_described_with_what_its_members_said_and_got() -> None:
    driver = GroupDriver()
    members = driver.stable(None, "two")
    described = driver.answer("describe_group", "g")
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    by_id = {member.member_id: member for member in described.members}
    assert sorted(by_id) == sorted(members)
    assert by_id[members[1]].group_instance_id == "two"
    assert by_id[members[0]].member_metadata == subscription("orders")
    assert by_id[members[0]].member_assignment == b"share of 0"
    assert (by_id[members[0]].client_id, by_id[members[0]].client_host) == ("client", "/127.0.0.1")


def test_a_group_in_a_rebalance_is_described_without_shares() -> None:
    driver = GroupDriver()
    driver.stable(None)
    driver.join()
    described = driver.answer("describe_group", "g")
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_assignment for member in described.members] == [b"", b""]


def test_a_group_that_is_not_there_is_described_as_dead() -> None:
    described = GroupDriver().answer("describe_group", "g")
    assert described.group_state == "Dead"
    assert described.error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_with_its_offsets_once_it_is_empty() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    driver.commit(5, member_id=member, generation=1)
    assert driver.answer("delete_group", "g").error_code is ErrorCode.NON_EMPTY_GROUP
    driver.leave(member)
    assert driver.answer("delete_group", "g").error_code is ErrorCode.NONE
    assert driver.committed() == (-1, "")
    assert driver.answer("delete_group", "g").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    driver.restart()
    assert listed(driver) == []


def test_a_group_that_is_deleted_while_somebody_is_about_to_join_lives_on_in_them() -> None:
    driver = GroupDriver()
    driver.leave(*driver.stable(None))
    member = driver.joined(driver.join(two_step=True)).member_id
    assert driver.answer("delete_group", "g").error_code is ErrorCode.NONE
    assert driver.joined(driver.join(member)).error_code is ErrorCode.NONE

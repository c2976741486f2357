"""A group moves between the protocols while it runs."""

from __future__ import annotations

from tests.support.group_driver import GroupDriver, subscription

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity


def share(*partitions: int) -> bytes:
    topics = [TopicPartition(topic="orders", partitions=list(partitions))] if partitions else []
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics), 0)


def owning(*partitions: int) -> dict[str, bytes]:
    """What a cooperative member says on joining."""
    owned = [TopicPartition(topic="orders", partitions=list(partitions))] if partitions else []
    said = ConsumerProtocolSubscription(topics=["orders"], owned_partitions=owned)
    return {"cooperative-sticky": encode_subscription(said, 1)}


def parts(data: bytes) -> list[int]:
    """The partitions of `orders` in an assignment."""
    return [p for topic in decode_assignment(data).assigned_partitions for p in topic.partitions]


def classic_group(driver: GroupDriver, protocols: dict[str, bytes] | None = None) -> str:
    """One classic member that has all four partitions, in generation 1."""
    member = driver.joined(driver.join(protocols=protocols)).member_id
    driver.sync(member, 1, {member: share(0, 1, 2, 3)})
    return member


def mixed_group(driver: GroupDriver) -> str:
    """A classic member, with partitions 0 and 1, and `n` of the newer protocol, with the rest."""
    old = classic_group(driver)
    driver.enter("n")
    generation = driver.joined(driver.join(old)).generation_id
    driver.sync(old, generation)
    driver.pulse("n", 2)
    return old


def test_a_classic_group_moves_up_when_a_newer_member_joins() -> None:
    driver = GroupDriver()
    old = classic_group(driver)
    answer = driver.enter("n")
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 2)
    assert driver.assigned(answer) == {}
    assert driver.newer_state() == "Reconciling"
    assert driver.beat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_eager_member_gives_up_all_by_joining_and_gets_its_share() -> None:
    driver = GroupDriver()
    old = classic_group(driver)
    driver.enter("n")
    driver.beat(old, 1)
    answer = driver.joined(driver.join(old))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)
    assert (answer.leader, answer.members, answer.protocol_name) == ("", [], "range")
    assert parts(driver.synced(driver.sync(old, 2)).assignment) == [0, 1]
    assert driver.assigned(driver.pulse("n", 2)) == {"orders": [2, 3]}
    assert driver.newer_state() == "Stable"
    assert driver.beat(old, 2) is ErrorCode.NONE


def test_a_cooperative_member_gives_up_step_by_step() -> None:
    driver = GroupDriver()
    old = classic_group(driver, owning())
    driver.enter("n")
    answer = driver.joined(driver.join(old, protocols=owning(0, 1, 2, 3)))
    assert answer.generation_id == 1
    assert parts(driver.synced(driver.sync(old, 1)).assignment) == [0, 1]
    assert driver.assigned(driver.pulse("n", 2)) is None
    answer = driver.joined(driver.join(old, protocols=owning(0, 1)))
    assert answer.generation_id == 2
    assert parts(driver.synced(driver.sync(old, 2)).assignment) == [0, 1]
    assert driver.assigned(driver.pulse("n", 2)) == {"orders": [2, 3]}


def test_a_classic_member_is_told_when_what_it_waits_for_is_free() -> None:
    driver = GroupDriver()
    old = mixed_group(driver)
    late = driver.joined(driver.join()).member_id
    assert driver.joined(driver.join(late)).generation_id == 3
    assert parts(driver.synced(driver.sync(late, 3)).assignment) == []
    assert driver.beat(late, 3) is ErrorCode.NONE
    driver.pulse("n", 2)
    driver.pulse("n", 2, owned={"orders": [2]})
    assert driver.beat(late, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join(late)
    assert parts(driver.synced(driver.sync(late, 3)).assignment) == [3]
    assert driver.beat(old, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_those_who_wait_at_the_classic_group_are_sent_to_the_newer() -> None:
    driver = GroupDriver()
    old = classic_group(driver)
    waiting = driver.join()
    driver.enter("n")
    answer = driver.joined(waiting)
    assert answer.error_code is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.joined(driver.join(answer.member_id))
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 3)
    assert driver.beat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_newer_member_may_come_while_the_first_classic_ones_gather() -> None:
    driver = GroupDriver(group_initial_rebalance_delay_ms=3_000)
    waiting = driver.join()
    assert driver.enter("n").member_epoch == 1
    assert driver.joined(waiting).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(4_000)
    assert driver.newer_state() == "Stable"


def test_what_cooperative_members_own_while_the_leader_assigns_is_not_given_away() -> None:
    driver = GroupDriver()
    old = classic_group(driver, owning())
    driver.join(old, protocols=owning(0, 1, 2, 3))
    assert driver.state() == "CompletingRebalance"
    assert driver.assigned(driver.enter("n")) == {}


def test_classic_members_join_a_newer_group() -> None:
    driver = GroupDriver()
    driver.enter("n")
    first = driver.joined(driver.join(two_step=True))
    assert first.error_code is ErrorCode.MEMBER_ID_REQUIRED
    answer = driver.joined(driver.join(first.member_id, two_step=True))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)
    described = driver.answer("consumer_group_describe", "g")
    assert [member.member_type for member in described.members] == [1, 0]


def test_classic_members_of_a_newer_group_are_fenced_as_in_a_classic_one() -> None:
    driver = GroupDriver()
    old = mixed_group(driver)
    assert driver.beat(old, 1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.beat("nobody", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("n", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(1, member_id=old, generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(1, member_id=old, generation=2) is ErrorCode.NONE
    assert driver.synced(driver.sync(old, 1)).error_code is ErrorCode.ILLEGAL_GENERATION
    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    ticket = driver.join(protocol_type="connect", protocols={"range": b""})
    assert driver.joined(ticket).error_code is refused
    assert driver.joined(driver.join(protocols={"range": b"?"})).error_code is refused
    ticket = driver.join(protocols={"mine": subscription("orders")})
    assert driver.joined(ticket).error_code is refused
    ticket = driver.join(session_timeout_ms=1)
    assert driver.joined(ticket).error_code is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_sync_that_comes_too_late_for_its_epoch_is_sent_back() -> None:
    driver = GroupDriver()
    old = mixed_group(driver)
    driver.enter("m")
    answer = driver.synced(driver.sync(old, 2))
    assert answer.error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_does_not_join_or_sync_in_time_is_thrown_out() -> None:
    driver = GroupDriver()
    old = mixed_group(driver)
    driver.enter("m")
    assert driver.beat(old, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(6):
        driver.advance(5_000)
        driver.pulse("m", 3)
        last = driver.beat(old, 2)
    assert last is ErrorCode.UNKNOWN_MEMBER_ID
    never_syncs = driver.joined(driver.join()).member_id
    epoch = driver.joined(driver.join(never_syncs)).generation_id
    for _ in range(6):
        driver.advance(5_000)
        last = driver.beat(never_syncs, epoch)
    assert last is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_classic_member_is_thrown_out_at_its_own_session_timeout() -> None:
    driver = GroupDriver()
    old = mixed_group(driver)
    driver.advance(10_000)
    assert driver.beat(old, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.pulse("n", 2).error_code is ErrorCode.NONE


def test_a_group_moves_down_when_the_last_newer_member_leaves() -> None:
    driver = GroupDriver()
    old = mixed_group(driver)
    driver.commit(7, member_id=old, generation=2)
    driver.pulse("n", -1)
    assert driver.state() == "PreparingRebalance"
    assert driver.newer_state() == "Dead"
    assert driver.beat(old, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.commit(8, member_id=old, generation=2) is ErrorCode.NONE
    answer = driver.joined(driver.join(old))
    assert (answer.generation_id, answer.leader) == (3, old)
    own = driver.sync(old, 3, {old: share(0, 1, 2, 3)})
    assert parts(driver.synced(own).assignment) == [0, 1, 2, 3]
    assert driver.committed() == (8, "")


def test_a_group_moves_down_when_the_last_newer_member_dies() -> None:
    driver = GroupDriver()
    old = mixed_group(driver)
    for _ in range(9):
        driver.advance(5_000)
        driver.beat(old, 2)
    assert driver.state() == "PreparingRebalance"


def test_a_group_up_and_down_survives_restarts_of_the_node() -> None:
    driver = GroupDriver()
    old = mixed_group(driver)
    driver.restart()
    assert driver.beat(old, 2) is ErrorCode.NONE
    driver.pulse("n", -1)
    driver.restart()
    assert driver.joined(driver.join(old)).generation_id == 3
    driver.enter("n")
    driver.restart()
    assert driver.newer_state() == "Reconciling"


def test_an_empty_group_becomes_what_its_next_member_speaks() -> None:
    driver = GroupDriver()
    driver.commit(3)
    driver.enter("n")
    driver.pulse("n", -1)
    answer = driver.joined(driver.join())
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 3)
    assert driver.newer_state() == "Dead"
    driver.leave(answer.member_id)
    assert driver.enter("n").member_epoch == 5
    assert driver.state() == "Dead"
    assert driver.committed() == (3, "")
    driver.restart()


def test_a_policy_may_forbid_either_way() -> None:
    driver = GroupDriver(group_consumer_migration_policy="disabled")
    classic_group(driver)
    assert driver.enter("n").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    driver = GroupDriver(group_consumer_migration_policy="upgrade")
    old = mixed_group(driver)
    driver.pulse("n", -1)
    assert driver.newer_state() == "Assigning"
    assert driver.beat(old, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.joined(driver.join(old)).generation_id == 3
    assert parts(driver.synced(driver.sync(old, 3)).assignment) == [0, 1, 2, 3]


def test_a_group_of_another_kind_stays_what_it_is() -> None:
    driver = GroupDriver()
    driver.stable(None, protocol_type="connect", protocols={"p": b"x"})
    assert driver.enter("n").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.state() == "Stable"


def test_static_members_keep_their_place_across_the_protocols() -> None:
    driver = GroupDriver()
    old = driver.joined(driver.join(instance="one")).member_id
    driver.sync(old, 1, {old: share(0, 1, 2, 3)})
    answer = driver.enter("n", instance="one")
    assert answer.error_code is ErrorCode.NONE
    assert driver.assigned(answer) == {"orders": [0, 1, 2, 3]}
    assert driver.beat(old, 1, instance="one") is ErrorCode.FENCED_INSTANCE_ID
    back = driver.joined(driver.join(instance="one"))
    assert back.error_code is ErrorCode.NONE
    answer2 = driver.synced(driver.sync(back.member_id, back.generation_id, instance="one"))
    assert parts(answer2.assignment) == [0, 1, 2, 3]
    assert driver.pulse("n", 1, instance="one").error_code is ErrorCode.FENCED_INSTANCE_ID


def test_a_tool_sends_members_of_a_newer_group_away() -> None:
    driver = GroupDriver()
    driver.enter("n", instance="one")
    driver.enter("m")
    identities = [
        MemberIdentity(member_id="", group_instance_id="one"),
        MemberIdentity(member_id="", group_instance_id="two"),
        MemberIdentity(member_id="m", group_instance_id="one"),
        MemberIdentity(member_id="nobody"),
    ]
    answer = driver.answer("leave_group", LeaveGroupRequest(group_id="g", members=identities))
    assert [member.error_code for member in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert len(driver.answer("consumer_group_describe", "g").members) == 1

"""Offsets: who may commit them, who may read them, and how long they are kept."""

from __future__ import annotations

from uuid import UUID

from tests.support.group_driver import FixedTopics, GroupDriver, subscription

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

DAY_MS = 24 * 60 * 60 * 1000


def delete(driver: GroupDriver, topic: str = "orders", group: str = "g") -> OffsetDeleteResponse:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    )
    response: OffsetDeleteResponse = driver.answer("offset_delete", request)
    return response


def test_an_offset_comes_back_with_its_metadata() -> None:
    driver = GroupDriver()
    assert driver.commit(7, metadata="was here") is ErrorCode.NONE
    assert driver.committed() == (7, "was here")
    driver.restart()
    assert driver.committed() == (7, "was here")


def test_a_partition_without_a_commit_has_offset_minus_one_and_no_error() -> None:
    driver = GroupDriver()
    assert driver.committed() == (-1, "")
    driver.commit(7)
    assert driver.committed(partition=1) == (-1, "")
    assert driver.committed(group="other") == (-1, "")


def test_no_metadata_is_stored_as_none_at_all() -> None:
    driver = GroupDriver()
    driver.commit(7, metadata=None)
    assert driver.committed() == (7, "")


def test_metadata_has_a_limit() -> None:
    driver = GroupDriver(offset_metadata_max_bytes=4)
    assert driver.commit(7, metadata="1234") is ErrorCode.NONE
    assert driver.commit(8, metadata="ééé") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert driver.committed() == (7, "1234")


def test_only_the_present_generation_commits() -> None:
    driver = GroupDriver()
    first, second = driver.stable(None, None)
    assert driver.commit(1, member_id=first, generation=2) is ErrorCode.NONE
    assert driver.commit(2, member_id=first, generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(2, member_id=first, generation=3) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(2, member_id="nobody", generation=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(2) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.leave(second)
    assert driver.commit(3, member_id=first, generation=2) is ErrorCode.NONE
    assert driver.commit(4, member_id=second, generation=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.committed() == (3, "")


def test_nobody_commits_while_the_leader_assigns() -> None:
    driver = GroupDriver()
    member = driver.joined(driver.join()).member_id
    assert driver.commit(1, member_id=member, generation=1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    for _ in range(3):
        driver.advance(9_000)
        assert driver.commit(1, member_id=member, generation=1) is ErrorCode.NONE


def test_anybody_may_commit_for_a_group_without_members() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    driver.leave(member)
    assert driver.commit(9) is ErrorCode.NONE
    assert driver.commit(9, member_id=member, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_of_a_group_that_is_not_there_is_illegal() -> None:
    driver = GroupDriver()
    assert driver.commit(1, member_id="m", generation=3) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(1, group="") is ErrorCode.INVALID_GROUP_ID


def test_unknown_topics_and_partitions_are_refused() -> None:
    driver = GroupDriver()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert driver.commit(1, topic="nothing") is unknown
    assert driver.commit(1, partition=4) is unknown
    assert driver.commit(1, partition=-1) is unknown
    error = driver.commit(1, topic="", topic_id=UUID(int=99))
    assert error is ErrorCode.UNKNOWN_TOPIC_ID


def test_topics_can_be_named_by_id() -> None:
    driver = GroupDriver()
    topic_id = driver.topics.topic_id("orders")
    assert topic_id is not None
    assert driver.commit(5, topic="", topic_id=topic_id) is ErrorCode.NONE
    assert driver.committed() == (5, "")
    topics = [
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=UUID(int=99), partition_indexes=[0]),
    ]
    request = OffsetFetchRequestGroup(group_id="g", topics=topics)
    known, unknown = driver.answer("offset_fetch", request).topics
    assert (known.topic_id, known.partitions[0].committed_offset) == (topic_id, 5)
    assert unknown.partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_ID


def test_all_offsets_of_a_group_can_be_asked_for() -> None:
    driver = GroupDriver()
    driver.commit(5, partition=2)
    driver.commit(6, topic="invoices", partition=1)
    answer = driver.answer("offset_fetch", OffsetFetchRequestGroup(group_id="g", topics=None))
    found = {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }
    assert found == {("orders", 2): 5, ("invoices", 1): 6}


def test_a_topic_created_again_starts_without_offsets() -> None:
    driver = GroupDriver()
    driver.commit(5)
    driver.topics.delete("orders")
    driver.topics.create("orders", 4)
    assert driver.committed() == (-1, "")
    answer = driver.answer("offset_fetch", OffsetFetchRequestGroup(group_id="g", topics=None))
    assert answer.topics == []


def test_offsets_of_a_deleted_topic_are_forgotten() -> None:
    driver = GroupDriver()
    driver.commit(5)
    driver.topics.delete("orders")
    driver.advance(0)
    assert driver.decision.records[0].value is None
    assert driver.state() == "Dead"


def test_offsets_go_when_the_group_has_been_empty_for_the_retention() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None)
    driver.commit(5, member_id=member, generation=1)
    driver.leave(member)
    driver.advance(7 * DAY_MS - 1)
    assert driver.committed() == (5, "")
    driver.advance(600_000)
    assert driver.committed() == (-1, "")
    assert driver.state() == "Dead"


def test_offsets_of_a_live_group_never_expire() -> None:
    driver = GroupDriver(group_max_session_timeout_ms=2**31 - 1)
    (member,) = driver.stable(None, session_timeout_ms=24 * DAY_MS)
    driver.commit(5, member_id=member, generation=1)
    driver.advance(20 * DAY_MS)
    assert driver.committed() == (5, "")


def test_a_live_group_forgets_topics_it_does_not_read_any_more() -> None:
    driver = GroupDriver(group_max_session_timeout_ms=2**31 - 1)
    driver.commit(5, topic="invoices")
    (member,) = driver.stable(None, session_timeout_ms=20 * DAY_MS)
    driver.commit(6, member_id=member, generation=1)
    driver.advance(6 * DAY_MS)
    assert driver.committed(topic="invoices") == (5, "")
    driver.advance(2 * DAY_MS)
    assert driver.committed(topic="invoices") == (-1, "")
    assert driver.committed() == (6, "")


def test_what_the_members_read_may_be_unknown_and_then_nothing_expires() -> None:
    driver = GroupDriver(group_max_session_timeout_ms=2**31 - 1)
    driver.commit(5, topic="invoices")
    driver.stable(None, session_timeout_ms=20 * DAY_MS, protocols={"mine": b"?"})
    driver.advance(9 * DAY_MS)
    assert driver.committed(topic="invoices") == (5, "")


def test_a_simple_consumer_that_commits_keeps_all_its_offsets() -> None:
    driver = GroupDriver()
    driver.commit(5, partition=0)
    for day in range(10):
        driver.commit(day, partition=1)
        driver.advance(DAY_MS)
    assert driver.committed(partition=0) == (5, "")
    driver.advance(8 * DAY_MS)
    assert driver.committed(partition=0) == (-1, "")


def test_an_old_client_may_ask_for_a_retention_of_its_own() -> None:
    driver = GroupDriver()
    driver.commit(5, retention_ms=DAY_MS)
    driver.restart()
    driver.advance(DAY_MS - 600_000)
    assert driver.committed() == (5, "")
    driver.advance(1_200_000)
    assert driver.committed() == (-1, "")


def test_offsets_are_deleted_unless_somebody_reads_the_topic() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None, protocols={"range": subscription("invoices")})
    driver.commit(5, member_id=member, generation=1)
    driver.commit(6, member_id=member, generation=1, topic="invoices")
    answer = delete(driver, "invoices").topics[0].partitions[0]
    assert answer.error_code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(driver, "orders").topics[0].partitions[0].error_code is ErrorCode.NONE
    assert (driver.committed(), driver.committed(topic="invoices")) == ((-1, ""), (6, ""))


def test_offsets_of_a_group_of_another_kind_are_deleted_only_when_it_is_empty() -> None:
    driver = GroupDriver()
    (member,) = driver.stable(None, protocol_type="connect", protocols={"p": b"x"})
    driver.commit(5, member_id=member, generation=1)
    assert delete(driver).error_code is ErrorCode.NON_EMPTY_GROUP
    driver.leave(member)
    assert delete(driver).error_code is ErrorCode.NONE
    assert driver.committed() == (-1, "")


def test_deleting_offsets_of_what_is_not_there() -> None:
    driver = GroupDriver(FixedTopics(orders=1))
    assert delete(driver).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    driver.commit(5)
    answer = delete(driver, "nothing").topics[0].partitions[0]
    assert answer.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

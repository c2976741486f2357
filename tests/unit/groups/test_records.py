"""The bytes of `__consumer_offsets`: Kafka's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.consumer_group import ClassicSide, ConsumerMember
from tidelog.groups.members import Protocol
from tidelog.groups.records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    offset_record,
    read_record,
    record,
)
from tidelog.wire.errors import DecodeError


def test_an_offset_commit_is_written_as_kafka_writes_it() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=7)
    written = record(key, value)
    assert written.key == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert written.value == bytes.fromhex("0003 0000000000000005 00000002 0001 6d 0000000000000007")
    assert written.headers == ()
    assert read_record(*written[:3]) == (key, value)
    value.topic_id = UUID(int=1)
    of_topic = record(key, value)
    assert of_topic.value == written.value
    assert [name for name, _ in of_topic.headers] == ["tidelog"]
    assert read_record(*of_topic[:3]) == (key, value)
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=7, expire_timestamp=9)
    assert record(key, value).value == bytes.fromhex(
        "0001 0000000000000005 0001 6d 0000000000000007 0000000000000009"
    )


@pytest.mark.parametrize(
    ("written", "leader_epoch", "expire_timestamp"),
    [
        ("0000 0000000000000005 0001 6d 0000000000000007", -1, -1),
        ("0001 0000000000000005 0001 6d 0000000000000007 0000000000000009", -1, 9),
        ("0002 0000000000000005 0001 6d 0000000000000007", -1, -1),
        ("0003 0000000000000005 00000002 0001 6d 0000000000000007", 2, -1),
    ],
)
def test_offset_commits_of_older_releases_are_read(
    written: str, leader_epoch: int, expire_timestamp: int
) -> None:
    for kind in ("0000", "0001"):
        key = bytes.fromhex(kind + "0001 67 0001 74 00000003")
        found = read_record(key, bytes.fromhex(written))
        assert found == (
            OffsetCommitKey(group="g", topic="t", partition=3),
            OffsetCommitValue(
                offset=5,
                leader_epoch=leader_epoch,
                metadata="m",
                commit_timestamp=7,
                expire_timestamp=expire_timestamp,
            ),
        )


def test_group_metadata_of_kafka_is_read() -> None:
    """Version 3, as Kafka writes it by default."""
    value = bytes.fromhex(
        "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0001 61 0000000000000007 00000001"
        "0001 61 ffff 0001 63 0001 68 000003e8 00002710 00000001 01 00000002 0203"
    )
    found = read_record(bytes.fromhex("0002 0001 67"), value)
    assert found is not None
    key, group = found
    assert key == GroupMetadataKey(group="g")
    assert (group.protocol_type, group.generation, group.protocol) == ("consumer", 4, "range")
    assert (group.leader, group.current_state_timestamp, group.is_unsettled) == ("a", 7, False)
    (member,) = group.members
    assert (member.member_id, member.group_instance_id) == ("a", None)
    assert (member.rebalance_timeout, member.session_timeout) == (1_000, 10_000)
    assert (member.subscription, member.assignment) == (b"\x01", b"\x02\x03")


GROUP_AS_KAFKA_WRITES_IT = (
    "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0001 61 0000000000000007 00000001"
    "0001 61 ffff 0001 63 0001 68 000003e8 00002710 00000001 01 00000002 0203"
)


def a_group(**own: Any) -> GroupMetadataValue:
    member = MemberMetadata(
        member_id="a",
        client_id="c",
        client_host="h",
        rebalance_timeout=1_000,
        session_timeout=10_000,
        subscription=b"\x01",
        assignment=b"\x02\x03",
        epoch_reached=own.pop("epoch_reached", -1),
    )
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="a",
        current_state_timestamp=7,
        members=[member],
        **own,
    )


@pytest.mark.parametrize("own", [{}, {"is_unsettled": True}, {"epoch_reached": 3}])
def test_group_metadata_is_written_as_kafka_writes_it_and_our_own_fields_in_a_header(
    own: dict[str, Any],
) -> None:
    key, value = GroupMetadataKey(group="g"), a_group(**own)
    written = record(key, value)
    assert written.value == bytes.fromhex(GROUP_AS_KAFKA_WRITES_IT)
    assert [name for name, _ in written.headers] == ["tidelog"] * bool(own)
    assert read_record(*written[:3]) == (key, value)


def test_records_of_earlier_releases_with_our_fields_as_tags_are_read() -> None:
    """They were of version 4."""
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    tagged = "0004 0000000000000005 00000002 02 6d 0000000000000007 01 00 10" + "00" * 15 + "01"
    found = read_record(bytes.fromhex("0001 0001 67 0001 74 00000003"), bytes.fromhex(tagged))
    assert found is not None
    assert found[0] == key
    assert (found[1].offset, found[1].metadata, found[1].topic_id) == (5, "m", UUID(int=1))
    tagged = "0004 01 00000001 00 00 ffffffffffffffff 01 01 e807 01 01"
    found = read_record(bytes.fromhex("0002 0001 67"), bytes.fromhex(tagged))
    assert found is not None
    assert (found[1].generation, found[1].is_unsettled) == (1, True)
    member = "02 61 00 02 63 02 68 000003e8 00002710 02 01 03 0203 01 e807 04 00000003"
    tagged = f"0004 01 00000001 00 00 ffffffffffffffff 02 {member} 00"
    found = read_record(bytes.fromhex("0002 0001 67"), bytes.fromhex(tagged))
    assert found is not None
    assert [each.epoch_reached for each in found[1].members] == [3]


def test_a_header_that_does_not_fit_its_record_is_noticed() -> None:
    key, value = GroupMetadataKey(group="g"), a_group(epoch_reached=3)
    written = record(key, value)
    value.members = []
    with pytest.raises(DecodeError):
        read_record(key=written.key, value=record(key, value).value, headers=written.headers)


def test_the_kinds_of_the_newer_protocol_have_kafkas_numbers() -> None:
    written = record(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=9))
    assert written.key == bytes.fromhex("0003 0001 67")
    assert written.value == bytes.fromhex("0000 00000009 00")
    regex = record(ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="a"))
    assert (regex.key, regex.value) == (bytes.fromhex("0010 0001 67 0001 61"), None)


def test_a_member_with_a_classic_side_comes_back_whole() -> None:
    member = ConsumerMember(
        member_id="m",
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/h",
        topic_names=("a", "b"),
        topic_regex="x.*",
        rebalance_timeout_ms=5,
        server_assignor="range",
        classic=ClassicSide(6, (Protocol("range", b"1"), Protocol("sticky", b""))),
    )
    written = record(ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), member.recorded())
    found = read_record(*written[:3])
    assert found is not None
    assert ConsumerMember.of_record("m", found[1]) == member


def test_kinds_of_other_features_are_passed_over() -> None:
    assert read_record(bytes.fromhex("000a 0001 67"), b"\x00\x00") is None
    assert read_record(bytes.fromhex("0004 0001 67"), b"\x00\x00") is None


@pytest.mark.parametrize("key", ["", "00", "0001", "0001 00ff 67"])
def test_damaged_keys_are_noticed(key: str) -> None:
    with pytest.raises(DecodeError):
        read_record(bytes.fromhex(key), None)


def test_a_version_of_the_future_is_noticed() -> None:
    with pytest.raises(DecodeError):
        read_record(bytes.fromhex("0002 0001 67"), bytes.fromhex("0009 00"))


@given(
    st.text(max_size=80),
    st.text(max_size=80),
    st.integers(0, 2**31 - 1),
    st.builds(
        OffsetCommitValue,
        offset=st.integers(-1, 2**63 - 1),
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=st.text(max_size=80) | st.just("m" * 0x7FFF),
        commit_timestamp=st.integers(-1, 2**63 - 1),
        expire_timestamp=st.sampled_from([-1, 0, 7]),
        topic_id=st.sampled_from([UUID(int=0), UUID(int=1)]) | st.uuids(),
    ),
)
def test_a_commits_record_is_the_same_whichever_way_it_is_made(
    group: str, topic: str, partition: int, value: OffsetCommitValue
) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    made = offset_record(key, value)
    assert made[:3] == record(key, value)[:3]
    if made.content is not None:
        assert read_record(*made[:3]) == made.content

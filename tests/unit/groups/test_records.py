"""The bytes of `__consumer_offsets`: Kafka's."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.groups.consumer_group import ClassicSide, ConsumerMember
from tidelog.groups.members import Protocol
from tidelog.groups.records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read_record,
    record,
)
from tidelog.wire.errors import DecodeError


def test_an_offset_commit_is_written_as_kafka_writes_it() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=7)
    written = record(key, value)
    assert written.key == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert written.value == bytes.fromhex(
        "0004 0000000000000005 00000002 02 6d 0000000000000007 00"
    )
    value.topic_id = UUID(int=1)
    tagged = record(key, value).value
    assert tagged is not None
    assert tagged.hex().endswith("01 00 10".replace(" ", "") + "00" * 15 + "01")
    assert read_record(*written) == (
        key,
        OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=7),
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


def test_our_own_field_of_group_metadata_is_tagged_and_absent_when_not_needed() -> None:
    settled = GroupMetadataValue(protocol_type="", generation=1, members=[])
    unsettled = GroupMetadataValue(protocol_type="", generation=1, members=[], is_unsettled=True)
    key = GroupMetadataKey(group="g")
    plain, tagged = record(key, settled).value, record(key, unsettled).value
    assert plain is not None
    assert tagged is not None
    assert plain[-1] == 0
    assert tagged == plain[:-1] + bytes.fromhex("01 e807 01 01")


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
    found = read_record(*written)
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

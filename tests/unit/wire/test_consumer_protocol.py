"""Subscriptions and assignments as consumers of other projects write and read them."""

from __future__ import annotations

import pytest
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.consumer_protocol import (
    LAST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    version_of,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["orders", "payments"],
    user_data=b"\x01\x02",
    owned_partitions=[TopicPartition(topic="orders", partitions=[0, 3])],
    generation_id=7,
    rack_id="north",
)
ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[TopicPartition(topic="orders", partitions=[1, 2])], user_data=b""
)


def test_the_version_stands_before_the_body() -> None:
    plain = ConsumerProtocolSubscription(topics=["ab"])
    assert encode_subscription(plain, 0).hex() == "0000" + "00000001" + "00026162" + "ffffffff"
    later = "0003" + "00000001" + "00026162" + "ffffffff" + "00000000" + "ffffffff" + "ffff"
    assert encode_subscription(plain).hex() == later
    assert version_of(encode_subscription(plain, 2)) == 2


def test_the_last_version_keeps_everything() -> None:
    assert decode_subscription(encode_subscription(SUBSCRIPTION)) == SUBSCRIPTION
    assert decode_assignment(encode_assignment(ASSIGNMENT)) == ASSIGNMENT


def test_aiokafka_and_we_read_each_other() -> None:
    theirs = ConsumerProtocolMemberMetadata(0, ["orders"], b"u").encode()
    subscription = ConsumerProtocolSubscription(topics=["orders"], user_data=b"u")
    assert encode_subscription(subscription, 0) == theirs
    assert decode_subscription(theirs) == subscription
    read = ConsumerProtocolMemberAssignment.decode(encode_assignment(ASSIGNMENT, 0))
    assert read.assignment == [("orders", [1, 2])]
    assert decode_assignment(read.encode()) == ASSIGNMENT


def test_what_an_old_version_has_no_room_for_gets_its_default() -> None:
    oldest = decode_subscription(encode_subscription(SUBSCRIPTION, 0))
    assert oldest == ConsumerProtocolSubscription(topics=SUBSCRIPTION.topics, user_data=b"\x01\x02")
    second = decode_subscription(encode_subscription(SUBSCRIPTION, 1))
    assert second.owned_partitions == SUBSCRIPTION.owned_partitions
    assert (second.generation_id, second.rack_id) == (-1, None)


def test_a_version_of_the_future_is_read_as_the_last_we_know() -> None:
    future = (9).to_bytes(2, "big")
    assert decode_subscription(future + encode_subscription(SUBSCRIPTION)[2:] + b"new") == (
        SUBSCRIPTION
    )
    assert decode_assignment(future + encode_assignment(ASSIGNMENT)[2:] + b"new") == ASSIGNMENT


def test_an_assignment_is_the_same_bytes_in_every_version() -> None:
    bodies = [encode_assignment(ASSIGNMENT, version)[2:] for version in range(LAST_VERSION + 1)]
    assert bodies == bodies[:1] * (LAST_VERSION + 1)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", b"\x00\x00", b"\x00\x01\x00\x00"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(data)
    with pytest.raises(DecodeError):
        decode_assignment(data)


def test_a_subscription_cut_off_anywhere_is_refused() -> None:
    whole = encode_subscription(SUBSCRIPTION)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_subscription(whole[:size])


@given(noise=st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_noise_is_a_decode_error_or_a_message(noise: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(noise)
        except DecodeError:
            pass

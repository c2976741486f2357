"""A consumer group's side of the protocol in plain requests: what members send, and when.

No client library stands in between, so a figure is the node's own and not that of a client's poll
interval. Versions are those that this node and Apache Kafka 4 both serve.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.bench.admin import Admin, WrongAnswer, expect_none
from tidelog.bench.frames import CLIENT_ID, FETCH_VERSION, FETCH_WAIT_MS
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.wire.requests import encode_request

FIND_COORDINATOR_VERSION = 3
JOIN_GROUP_VERSION = 5
ONE_STEP_JOIN_VERSION = 3
"""The last without the second step: the member's id comes with its first answer."""

SYNC_GROUP_VERSION = 3
HEARTBEAT_VERSION = 3
OFFSET_COMMIT_VERSION = 7
OFFSET_FETCH_VERSION = 5

SESSION_TIMEOUT_MS = 300_000
"""Long enough for all members to join before the first one's heartbeat is due."""

_ASSIGNOR = "range"
_FETCH_BYTES = 1 << 20
_RETRY_SECONDS = 0.01
_GIVE_UP_SECONDS = 30.0
_NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(frozen=True, slots=True)
class Member:
    """Of a stable group: all that a heartbeat needs."""

    group: str
    member_id: str
    generation: int


def seconds_to_first_record(admin: Admin, group: str, topic: str) -> float:
    """Join the new `group` as its only member and read partition 0 of `topic`, which has records.

    The connection is open already; everything else that a new consumer does is counted.
    """
    began_at = time.monotonic()
    await_coordinator(admin, group)
    member = _join_alone(admin, group, topic)
    _sync(admin, [member], topic)
    _committed_offset(admin, group, topic)
    answer = admin.ask(fetch_request(topic, 0), FETCH_VERSION)
    seconds = time.monotonic() - began_at
    partition = answer.responses[0].partitions[0]
    expect_none(partition.error_code, f"fetching {topic}")
    if not partition.records:
        raise WrongAnswer(f"{topic} has records, but the first fetch brought none")
    return seconds


def await_coordinator(admin: Admin, group: str) -> None:
    """The first question of a new cluster creates the offsets topic, so it may take a while."""
    request = FindCoordinatorRequest(key=group)
    answer = _once_ready(
        lambda: admin.ask(request, FIND_COORDINATOR_VERSION), lambda answer: answer.error_code
    )
    expect_none(answer.error_code, f"finding the coordinator of {group}")


def _once_ready(ask: Callable[[], Any], code_of: Callable[[Any], ErrorCode]) -> Any:
    """The first answer that is not about a coordinator still on its way."""
    give_up = time.monotonic() + _GIVE_UP_SECONDS
    while code_of(answer := ask()) in _NOT_YET and time.monotonic() < give_up:
        time.sleep(_RETRY_SECONDS)
    return answer


def _join_alone(admin: Admin, group: str, topic: str) -> Member:
    """In two steps: the first is refused, with the id to come back with."""
    request = _join(group, topic)
    first = _once_ready(
        lambda: admin.ask(request, JOIN_GROUP_VERSION), lambda answer: answer.error_code
    )
    if first.error_code != ErrorCode.MEMBER_ID_REQUIRED:
        raise WrongAnswer(f"joining {group} without an id: {first.error_code.name}")
    answer = admin.ask(_join(group, topic, first.member_id), JOIN_GROUP_VERSION)
    expect_none(answer.error_code, f"joining {group}")
    return Member(group, answer.member_id, answer.generation_id)


def _join(group: str, topic: str, member_id: str = "") -> JoinGroupRequest:
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=[topic]))
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=subscription)],
    )


def _sync(admin: Admin, members: Sequence[Member], topic: str) -> None:
    """The first of `members` leads and gets the topic's partition 0; the others get nothing."""
    requests = _syncs(members, topic)
    for answer in admin.ask_all(requests, SYNC_GROUP_VERSION):
        expect_none(answer.error_code, f"syncing {members[0].group}")


def _syncs(members: Sequence[Member], topic: str) -> list[SyncGroupRequest]:
    owned = [TopicPartition(topic=topic, partitions=[0])]
    assignments = [
        SyncGroupRequestAssignment(
            member_id=member.member_id,
            assignment=encode_assignment(
                ConsumerProtocolAssignment(assigned_partitions=owned if number == 0 else [])
            ),
        )
        for number, member in enumerate(members)
    ]
    return [
        SyncGroupRequest(
            group_id=member.group,
            generation_id=member.generation,
            member_id=member.member_id,
            assignments=assignments if number == 0 else [],
        )
        for number, member in enumerate(members)
    ]


def _committed_offset(admin: Admin, group: str, topic: str) -> int:
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    )
    answer = admin.ask(request, OFFSET_FETCH_VERSION)
    expect_none(answer.error_code, f"the offsets of {group}")
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def fetch_request(topic: str, offset: int) -> FetchRequest:
    """Of partition 0."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    return FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def join_together(admin: Admin, group: str, topic: str, *, members: int) -> list[Member]:
    """Many members of one group on one connection, all of them joining at the same moment."""
    joins = [_join(group, topic)] * members
    answers = admin.ask_all(joins, ONE_STEP_JOIN_VERSION)
    for answer in answers:
        expect_none(answer.error_code, f"joining {group}")
    if len({answer.generation_id for answer in answers}) != 1:
        raise WrongAnswer(f"the members of {group} joined different generations")
    leaders_first = sorted(answers, key=lambda answer: answer.member_id != answer.leader)
    joined = [Member(group, answer.member_id, answer.generation_id) for answer in leaders_first]
    _sync(admin, joined, topic)
    return joined


def heartbeat_frames(members: Sequence[Member]) -> list[bytes]:
    return [
        encode_request(
            HeartbeatRequest(
                group_id=member.group,
                generation_id=member.generation,
                member_id=member.member_id,
            ),
            HEARTBEAT_VERSION,
            correlation_id=1,
            client_id=CLIENT_ID,
        )
        for member in members
    ]


def commit_request(group: str, topic: str, offset: int) -> OffsetCommitRequest:
    """Without membership: generation -1, as tools and consumers with `assign` commit."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )


def commit_frames(group: str, topic: str, *, offsets: Sequence[int]) -> list[bytes]:
    return [
        encode_request(
            commit_request(group, topic, offset),
            OFFSET_COMMIT_VERSION,
            correlation_id=1,
            client_id=CLIENT_ID,
        )
        for offset in offsets
    ]


def commit_once(admin: Admin, group: str, topic: str) -> None:
    """Wait until the group's coordinator takes commits."""
    request = commit_request(group, topic, 0)

    def code_of(answer: Any) -> ErrorCode:
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    answer = _once_ready(lambda: admin.ask(request, OFFSET_COMMIT_VERSION), code_of)
    expect_none(code_of(answer), f"committing to {group}")

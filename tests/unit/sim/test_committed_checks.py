"""G4 on answers and records made by hand: a coordinator tells nothing that its log could lose."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    record,
)
from tidelog.model.errors import ErrorCode
from tidelog.sim.checkers.committed import Ledger, check_state, claims
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

COMMIT = record(
    OffsetCommitKey(group="g", topic="t", partition=1),
    OffsetCommitValue(offset=7, metadata="", commit_timestamp=0),
)
GENERATION = record(
    GroupMetadataKey(group="g"),
    GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        members=[
            MemberMetadata(
                member_id="m",
                client_id="",
                client_host="",
                session_timeout=1,
                subscription=b"",
                assignment=b"share",
            )
        ],
    ),
)
EPOCH = record(
    ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
    ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=4,
        previous_member_epoch=3,
        state=0,
        assigned_partitions=[],
        partitions_pending_revocation=[],
    ),
)


def committed(error: ErrorCode = ErrorCode.NONE) -> tuple[Any, Any]:
    asked = OffsetCommitRequestPartition(partition_index=1, committed_offset=7)
    told = OffsetCommitResponsePartition(partition_index=1, error_code=error)
    return (
        OffsetCommitRequest(
            group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[asked])]
        ),
        OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[told])]),
    )


def fetched() -> tuple[Any, Any]:
    told = OffsetFetchResponsePartitions(partition_index=1, committed_offset=7)
    topic = OffsetFetchResponseTopics(name="t", partitions=[told])
    group = OffsetFetchResponseGroup(group_id="g", topics=[topic])
    return OffsetFetchRequest(), OffsetFetchResponse(groups=[group])


def joined() -> tuple[Any, Any]:
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="m", protocol_type="consumer", protocols=[]
    )
    return request, JoinGroupResponse(generation_id=3, leader="m", member_id="m")


def synced() -> tuple[Any, Any]:
    request = SyncGroupRequest(group_id="g", generation_id=3, member_id="m", assignments=[])
    return request, SyncGroupResponse(assignment=b"share")


def reconciled() -> tuple[Any, Any]:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
    return request, ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=4)


ANSWERS = [
    (committed, COMMIT),
    (fetched, COMMIT),
    (joined, GENERATION),
    (synced, GENERATION),
    (reconciled, EPOCH),
]


@pytest.mark.parametrize(("answer", "proof"), ANSWERS)
def test_an_answer_is_right_when_its_record_is_durable(answer: Any, proof: Any) -> None:
    ledger = Ledger()
    ledger.add(*proof[:3])
    assert ledger.check(*answer()) == []


@pytest.mark.parametrize(("answer", "proof"), ANSWERS)
def test_an_answer_before_its_record_is_durable_is_found(answer: Any, proof: Any) -> None:
    ledger = Ledger()
    for _, other in ANSWERS:
        if other is not proof:
            ledger.add(*other[:3])
    assert [finding.property for finding in ledger.check(*answer())] == ["G4"]


def test_a_refusal_claims_nothing() -> None:
    assert claims(*committed(ErrorCode.ILLEGAL_GENERATION)) == []
    refused = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id="m", leader="m")
    assert claims(joined()[0], refused) == []


def test_a_coordinator_that_believes_what_its_log_does_not_say_is_found() -> None:
    believed: dict[str, Any] = {"groups": {}, "offsets": {"g": 7}}
    said: dict[str, Any] = {"groups": {}, "offsets": {}}
    assert check_state(0, said, said) == []
    assert [finding.property for finding in check_state(0, believed, said)] == ["G4"]

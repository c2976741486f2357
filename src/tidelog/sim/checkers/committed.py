"""G4: a coordinator knows what its log says, and tells only what the log can't lose any more.

`Ledger` is the durable part of `__consumer_offsets`, as somebody reads it who trusts the disk and
not the node. Each answer of a coordinator makes claims (an offset is committed, a generation has
begun, a share was given, a member has an epoch); a claim that is not in the ledger at the moment
the answer leaves could be taken back by a power failure.

`check_state` is the other half: what a coordinator has recorded is a function of its log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    GroupMetadataKey,
    OffsetCommitKey,
    read_record,
)
from tidelog.model.errors import ErrorCode
from tidelog.sim.checkers.finding import Finding
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.offset_commit import OffsetCommitResponse
from tidelog.wire.messages.offset_fetch import OffsetFetchResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse
from tidelog.wire.records import Header
from tidelog.wire.schema import NO_UUID

Claim = tuple[object, ...]


class Ledger:
    """Everything that was ever durable: what was once committed needs no second proof."""

    def __init__(self) -> None:
        self._facts: set[Claim] = set()

    def add(self, key: bytes, value: bytes | None, headers: Sequence[Header] = ()) -> None:
        """One record of the log."""
        found = read_record(key, value, headers)
        if found is None or found[1] is None:
            return
        read_key, read_value = found
        if isinstance(read_key, OffsetCommitKey):
            group, partition, offset = read_key.group, read_key.partition, read_value.offset
            self._facts.add(("offset", group, read_key.topic, partition, offset))
            self._facts.add(("offset", group, read_value.topic_id, partition, offset))
        elif isinstance(read_key, GroupMetadataKey):
            group, generation = read_key.group, read_value.generation
            self._facts.add(("generation", group, generation))
            for member in () if read_value.is_unsettled else read_value.members:
                share = bytes(member.assignment)
                self._facts.add(("share", group, generation, member.member_id, share))
        elif isinstance(read_key, ConsumerGroupCurrentMemberAssignmentKey):
            epoch = read_value.member_epoch
            self._facts.add(("epoch", read_key.group_id, read_key.member_id, epoch))

    def check(self, request: Any, response: Any) -> list[Finding]:
        """What the answer says that is not durable."""
        return [
            Finding("G4", f"a coordinator told what its log could still lose: {claim}")
            for claim in claims(request, response)
            if claim not in self._facts
        ]


def claims(request: Any, response: Any) -> list[Claim]:
    """What an answer says of recorded state; nothing, if it is a refusal."""
    if isinstance(response, OffsetCommitResponse):
        return _commit_claims(request, response)
    if isinstance(response, OffsetFetchResponse):
        return _fetch_claims(request, response)
    if getattr(response, "error_code", ErrorCode.NONE) is not ErrorCode.NONE:
        return []
    if isinstance(response, JoinGroupResponse) and response.leader:
        return [("generation", request.group_id, response.generation_id)]
    if isinstance(response, SyncGroupResponse) and response.assignment:
        share = bytes(response.assignment)
        return [("share", request.group_id, request.generation_id, request.member_id, share)]
    if isinstance(response, ConsumerGroupHeartbeatResponse) and response.member_epoch > 0:
        return [("epoch", request.group_id, response.member_id, response.member_epoch)]
    return []


def _commit_claims(request: Any, response: OffsetCommitResponse) -> list[Claim]:
    told: list[Claim] = []
    for asked, topic in zip(request.topics, response.topics, strict=True):
        name = asked.topic_id if asked.topic_id != NO_UUID else asked.name
        for wanted, answer in zip(asked.partitions, topic.partitions, strict=True):
            if answer.error_code is ErrorCode.NONE:
                index, offset = wanted.partition_index, wanted.committed_offset
                told.append(("offset", request.group_id, name, index, offset))
    return told


def _fetch_claims(request: Any, response: OffsetFetchResponse) -> list[Claim]:
    parts: list[tuple[str, Sequence[Any]]] = [
        (group.group_id, group.topics) for group in response.groups
    ]
    parts.append((request.group_id, response.topics))
    return [
        ("offset", group_id, _name_of(topic), answer.partition_index, answer.committed_offset)
        for group_id, topics in parts
        for topic in topics
        for answer in topic.partitions
        if answer.error_code is ErrorCode.NONE and answer.committed_offset >= 0
    ]


def _name_of(topic: Any) -> object:
    topic_id = getattr(topic, "topic_id", NO_UUID)
    return topic_id if topic_id != NO_UUID else topic.name


def check_state(
    partition: int, recorded: Mapping[str, Any], replayed: Mapping[str, Any]
) -> list[Finding]:
    """`recorded` is what the coordinator believes, `replayed` what its log says."""
    return [
        Finding("G4", f"{what} of shard {partition} are not what its log says: {recorded[what]}")
        for what in sorted({*recorded, *replayed})
        if recorded.get(what) != replayed.get(what)
    ]

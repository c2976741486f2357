"""A member that follows the Java consumer's rules, in so far as they matter to a rolling upgrade.

None of the Python clients can name an eager and a cooperative assignor at once; Java's can, and its
way from eager to cooperative (KIP-429) is two rolls: first both are named, then only the new one.
This member joins with whatever assignors it is given, the one liked best first. How it rebalances
depends on those it was *configured* with, as in Java: eager as long as one of them is eager (give
up everything, then join), else cooperative (keep everything, and give up what was taken away, then
join again). As a leader it assigns by the protocol that the node has chosen.

One thread drives all members: `step` never waits for an answer that depends on other members.
"""

from __future__ import annotations

import select
from collections.abc import Mapping, Sequence

from tests.support.eventually import attempts
from tests.support.node_process import RunningNode
from tests.support.raw_client import RawClient, opened

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

COOPERATIVE = "cooperative-sticky"
RANGE = "range"
_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that names topics."""


class JavaLikeMember:
    """One member of `group`, reading `topic`. `owned` and `read` are what a test looks at."""

    def __init__(
        self, node: RunningNode, group: str, topic: str, partitions: int, assignors: Sequence[str]
    ) -> None:
        self.assignors = tuple(assignors)
        self.owned: list[int] = []
        self.read: list[str] = []
        self.protocol = ""
        self._client = RawClient(node)
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._member_id = ""
        self._generation = -1
        self._positions: dict[int, int] = {}
        self._wants_to_join = True
        self._is_waiting = False
        self._find_coordinator()

    def _find_coordinator(self) -> None:
        """The node creates the topic that groups are kept in when somebody asks first."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
        for _ in attempts("a coordinator"):
            if self._client.request(request).coordinators[0].error_code is ErrorCode.NONE:
                break

    @property
    def _is_eager(self) -> bool:
        return RANGE in self.assignors

    @property
    def is_settled(self) -> bool:
        return not (self._wants_to_join or self._is_waiting)

    def step(self) -> None:
        """Whatever can be done without waiting for the others."""
        if self._is_waiting:
            readable, _, _ = select.select([self._client], [], [], 0.02)
            if readable:
                self._is_waiting = False
                self._hear(self._client.receive())
        elif self._wants_to_join:
            self._join()
        else:
            self._poll()
            self._beat()

    def leave(self) -> None:
        """As `close()` does: what was read is committed, and the others are told."""
        if self._is_waiting:
            # The join or sync under way would be answered first; nothing is owned by now that
            # was not owned before.
            self._client.close()
            return
        self._commit(self.owned)
        request = LeaveGroupRequest(
            group_id=self._group, members=[MemberIdentity(member_id=self._member_id)]
        )
        answer = self._client.request(request)
        assert answer.error_code is ErrorCode.NONE, answer
        self._client.close()
        self.owned = []

    # --- joining ------------------------------------------------------------------------------

    def _join(self) -> None:
        if self._is_eager:
            self._give_up(self.owned)
        subscription = ConsumerProtocolSubscription(
            topics=[self._topic],
            owned_partitions=[TopicPartition(topic=self._topic, partitions=sorted(self.owned))],
            generation_id=self._generation,
        )
        metadata = encode_subscription(subscription)
        self._client.send(
            JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=120_000,
                rebalance_timeout_ms=120_000,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[
                    JoinGroupRequestProtocol(name=name, metadata=metadata)
                    for name in self.assignors
                ],
            )
        )
        self._wants_to_join, self._is_waiting = False, True

    def _hear(self, answer: JoinGroupResponse | SyncGroupResponse) -> None:
        if isinstance(answer, SyncGroupResponse):
            self._receive_share(answer)
        elif answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id, self._wants_to_join = answer.member_id, True
        else:
            assert answer.error_code is ErrorCode.NONE, answer
            self._member_id, self._generation = answer.member_id, answer.generation_id
            self.protocol = answer.protocol_name or ""
            self._sync(answer)

    def _sync(self, joined: JoinGroupResponse) -> None:
        shares: dict[str, list[int]] = {}
        if joined.leader == self._member_id:
            owned = {
                one.member_id: [
                    number
                    for topic in decode_subscription(one.metadata).owned_partitions
                    for number in topic.partitions
                ]
                for one in joined.members
            }
            shares = assign(self.protocol, owned, self._partitions)
        self._client.send(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=self.protocol,
                assignments=[
                    SyncGroupRequestAssignment(member_id=one, assignment=self._encoded(share))
                    for one, share in shares.items()
                ],
            )
        )
        self._is_waiting = True

    def _encoded(self, share: Sequence[int]) -> bytes:
        named = [TopicPartition(topic=self._topic, partitions=sorted(share))]
        return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named))

    def _receive_share(self, answer: SyncGroupResponse) -> None:
        if answer.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._wants_to_join = True
            return
        assert answer.error_code is ErrorCode.NONE, answer
        named = decode_assignment(answer.assignment).assigned_partitions
        share = [number for topic in named for number in topic.partitions]
        taken = [number for number in self.owned if number not in share]
        self._give_up(taken)
        self._find_positions([number for number in share if number not in self.owned])
        self.owned = sorted(share)
        # Whoever has given something up joins again, so that others get it.
        self._wants_to_join = bool(taken) and not self._is_eager

    # --- reading ------------------------------------------------------------------------------

    def _poll(self) -> None:
        for number in self.owned:
            data = self._client.fetch(self._topic, self._positions[number], partition=number)
            for offset, value in sorted(opened(data).items()):
                if offset >= self._positions[number]:
                    self.read.append((value or b"").decode())
                    self._positions[number] = offset + 1

    def _beat(self) -> None:
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id
        )
        error = self._client.request(request).error_code
        assert error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS), error
        self._wants_to_join = error is ErrorCode.REBALANCE_IN_PROGRESS

    def _give_up(self, numbers: Sequence[int]) -> None:
        self._commit(numbers)
        self.owned = [number for number in self.owned if number not in numbers]

    def _commit(self, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=self._positions[number]
            )
            for number in numbers
        ]
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=partitions)],
        )
        answers = self._client.request(request, _BY_NAME).topics[0].partitions
        assert all(answer.error_code is ErrorCode.NONE for answer in answers), answers

    def _find_positions(self, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        topic = OffsetFetchRequestTopics(name=self._topic, partition_indexes=list(numbers))
        group = OffsetFetchRequestGroup(group_id=self._group, topics=[topic])
        answer = self._client.request(OffsetFetchRequest(groups=[group]), _BY_NAME)
        for found in answer.groups[0].topics[0].partitions:
            assert found.error_code is ErrorCode.NONE, found
            self._positions[found.partition_index] = max(found.committed_offset, 0)


def assign(
    protocol: str, owned: Mapping[str, Sequence[int]], partitions: int
) -> dict[str, list[int]]:
    """Range: by number. Cooperative-sticky: as many to each, everybody keeps what it can, and what
    somebody has to give up first is given to nobody in this round."""
    members = sorted(owned)
    sizes = [len(range(index, partitions, len(members))) for index in range(len(members))]
    if protocol == RANGE:
        bounds = [sum(sizes[:index]) for index in range(len(members) + 1)]
        return {
            one: list(range(bounds[index], bounds[index + 1])) for index, one in enumerate(members)
        }
    assert protocol == COOPERATIVE, protocol
    by_wealth = sorted(members, key=lambda one: (-len(owned[one]), one))
    shares = {one: sorted(owned[one])[:size] for one, size in zip(by_wealth, sizes, strict=True)}
    claimed = [number for one in members for number in owned[one]]
    free = [number for number in range(partitions) if number not in claimed]
    for one, size in zip(by_wealth, sizes, strict=True):
        while free and len(shares[one]) < size:
            shares[one].append(free.pop(0))
    return shares

"""A coordinator in a test's hand: its log, its time and its topics, without a node around it.

Plays the broker's part: appends the records of each decision, replays them, delivers the replies.
After every step the coordinator checks its own invariants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any
from uuid import UUID

from tidelog.groups.coordinator import Coordinator
from tidelog.groups.decision import Decision, GroupRecord
from tidelog.groups.settings import GroupSettings
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.wire.schema import NO_UUID


class FixedTopics:
    """Topics as the test says they are."""

    def __init__(self, **partitions: int) -> None:
        self._partitions: dict[str, int] = {}
        self._ids: dict[str, UUID] = {}
        self._created = 0
        self.version = 0
        self.configs: dict[str, dict[str, str]] = {}
        """Settings of groups, by the group's name."""
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int) -> UUID:
        self._created += 1
        self._partitions[name] = partitions
        self._ids[name] = UUID(int=self._created)
        self.version += 1
        return self._ids[name]

    def grow(self, name: str, partitions: int) -> None:
        self._partitions[name] = partitions
        self.version += 1

    def delete(self, name: str) -> None:
        del self._partitions[name], self._ids[name]
        self.version += 1

    def topic_id(self, name: str) -> UUID | None:
        return self._ids.get(name)

    def name(self, topic_id: UUID) -> str | None:
        return next((name for name, known in self._ids.items() if known == topic_id), None)

    def partitions(self, name: str) -> int | None:
        return self._partitions.get(name)

    def names(self) -> list[str]:
        return list(self._partitions)

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        return self.configs.get(group_id, {})


def subscription(*topics: str) -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 0)


class GroupDriver:
    """Steps a coordinator; `replies` has the answers that have come, by ticket."""

    def __init__(self, topics: FixedTopics | None = None, **settings: Any) -> None:
        self.settings = GroupSettings(**{"group_initial_rebalance_delay_ms": 0, **settings})
        self.topics = topics or FixedTopics(orders=4, invoices=2)
        self.log: list[GroupRecord] = []
        self.batches: list[list[GroupRecord]] = []
        """The log again, decision by decision."""
        self.now_ms = 1_000.0
        self.wall_ms = 1_700_000_000_000
        self.replies: dict[int, Any] = {}
        self.decision = Decision()
        self._next_ticket = 1
        self._starts = 0
        self.coordinator = self._start()
        self.coordinator.loaded(self.now)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.wall_ms)

    # The broker's part.

    def _start(self) -> Coordinator:
        self._starts += 1
        return self.replayed(self.log)

    def replayed(self, log: Sequence[GroupRecord]) -> Coordinator:
        """Another coordinator, of what the log says."""
        coordinator = Coordinator(self.settings, Random(self._starts), self.topics)
        for record in log:
            coordinator.replay(*record)
        return coordinator

    def restart(self) -> None:
        """A crash: what is not in the log is gone, and so are all connections."""
        before = self.coordinator.recorded()
        self.coordinator = self._start()
        assert self.coordinator.recorded() == before
        self.coordinator.loaded(self.now)
        self.coordinator.validate()

    def take(self, decision: Decision) -> Decision:
        """Append, replay, deliver."""
        self.decision = decision
        self.batches.append(list(decision.records))
        for record in decision.records:
            self.log.append(record._replace(content=None))  # bytes are all that is there later
            self.coordinator.replay(*record)
        for reply in decision.replies:
            assert reply.ticket not in self.replies, "a request was answered twice"
            self.replies[reply.ticket] = reply.response
        self.coordinator.validate()
        return decision

    def ticket(self) -> int:
        self._next_ticket += 1
        return self._next_ticket - 1

    def ask(self, method: str, request: Any, **arguments: Any) -> int:
        """Send a request; gives its ticket."""
        ticket = self.ticket()
        self.take(getattr(self.coordinator, method)(self.now, ticket, request, **arguments))
        return ticket

    def answer(self, method: str, request: Any, **arguments: Any) -> Any:
        """Of a request that does not wait."""
        return self.replies[self.ask(method, request, **arguments)]

    def advance(self, milliseconds: float) -> None:
        """Time passes; what falls due on the way happens at its time."""
        end = self.now_ms + milliseconds
        while (deadline := self.coordinator.next_deadline()) is not None and deadline <= end:
            self._pass_until(max(deadline, self.now_ms))
            self.take(self.coordinator.tick(self.now))
        self._pass_until(end)

    def _pass_until(self, monotonic_ms: float) -> None:
        self.wall_ms += round(monotonic_ms - self.now_ms)
        self.now_ms = monotonic_ms

    # Requests of the classic protocol, as a client makes them.

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 30_000,
        two_step: bool = False,
        may_skip_assignment: bool = False,
        client_id: str = "client",
    ) -> int:
        offered = {"range": subscription("orders")} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in offered.items()
            ],
        )
        return self.ask(
            "join_group",
            request,
            client_id=client_id,
            client_host="/127.0.0.1",
            requires_member_id=two_step,
            may_skip_assignment=may_skip_assignment,
        )

    def joined(self, ticket: int) -> JoinGroupResponse:
        response: JoinGroupResponse = self.replies[ticket]
        return response

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
    ) -> int:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=share)
                for one, share in (assignments or {}).items()
            ],
        )
        return self.ask("sync_group", request)

    def synced(self, ticket: int) -> SyncGroupResponse:
        response: SyncGroupResponse = self.replies[ticket]
        return response

    def beat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        error: ErrorCode = self.answer("heartbeat", request).error_code
        return error

    def leave(self, *member_ids: str, group: str = "g") -> LeaveGroupResponse:
        members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
        response: LeaveGroupResponse = self.answer(
            "leave_group", LeaveGroupRequest(group_id=group, members=members)
        )
        return response

    def commit(
        self,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        group: str = "g",
        topic: str = "orders",
        topic_id: UUID = NO_UUID,
        partition: int = 0,
        metadata: str | None = "",
        instance: str | None = None,
        retention_ms: int = -1,
    ) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        error: ErrorCode = self.answer("offset_commit", request).topics[0].partitions[0].error_code
        return error

    def committed(
        self, *, group: str = "g", topic: str = "orders", partition: int = 0
    ) -> tuple[int, str]:
        """Offset and metadata."""
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        request = OffsetFetchRequestGroup(group_id=group, topics=topics)
        found = self.answer("offset_fetch", request).topics[0].partitions[0]
        return found.committed_offset, found.metadata

    def state(self, group: str = "g") -> str:
        """As DescribeGroups tells it."""
        state: str = self.answer("describe_group", group).group_state
        return state

    # Requests of the newer protocol.

    def pulse(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = "g",
        topics: list[str] | None = None,
        regex: str | None = None,
        owned: Mapping[str, list[int]] | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = -1,
    ) -> ConsumerGroupHeartbeatResponse:
        """One ConsumerGroupHeartbeat; what is not given is null."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_timeout_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=self.topic_id(name), partitions=partitions)
                for name, partitions in owned.items()
            ],
        )
        client = {"client_id": "client", "client_host": "/127.0.0.1"}
        at_once = self.coordinator.answer_consumer_heartbeat(self.now, request, **client)
        response: ConsumerGroupHeartbeatResponse = self.answer(
            "consumer_group_heartbeat", request, **client
        )
        if at_once is not None:
            assert not self.decision.records, "something was to be decided"
            assert at_once == response
        return response

    def enter(
        self, member_id: str, *topics: str, timeout_ms: int = 30_000, **arguments: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """A member's first heartbeat."""
        names = list(topics) if topics or "regex" in arguments else ["orders"]
        return self.pulse(
            member_id, 0, topics=names, owned={}, rebalance_timeout_ms=timeout_ms, **arguments
        )

    def topic_id(self, name: str) -> UUID:
        topic_id = self.topics.topic_id(name)
        assert topic_id is not None
        return topic_id

    def assigned(self, response: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
        """By topic name; nothing if the response says nothing of it."""
        if response.assignment is None:
            return None
        return {
            self.topics.name(topic.topic_id) or str(topic.topic_id): topic.partitions
            for topic in response.assignment.topic_partitions
        }

    def has(self, group: str, member_id: str) -> dict[str, list[int]]:
        """What a member of the newer protocol has been assigned."""
        described = self.answer("consumer_group_describe", group)
        found = [m.assignment for m in described.members if m.member_id == member_id]
        topics = found[0].topic_partitions if found else []
        return {topic.topic_name: topic.partitions for topic in topics}

    def newer_state(self, group: str = "g") -> str:
        """As ConsumerGroupDescribe tells it."""
        state: str = self.answer("consumer_group_describe", group).group_state
        return state

    # Stories that many tests begin with.

    def stable(self, *instances: str | None, group: str = "g", **arguments: Any) -> list[str]:
        """A settled group of as many members; the first leads. Gives their ids.

        A static member is given by its instance id, a dynamic one by `None`.
        """
        tickets: list[int] = []
        members: list[str] = []
        for instance in instances:
            newcomer = self.join(group=group, instance=instance, **arguments)
            tickets = [
                self.join(member, group=group, instance=known, **arguments)
                for member, known in zip(members, instances, strict=False)
            ]
            tickets.append(newcomer)
            members = [self.joined(ticket).member_id for ticket in tickets]
        generation = self.joined(tickets[0]).generation_id
        shares = {member: f"share of {number}".encode() for number, member in enumerate(members)}
        for member in reversed(members):
            self.sync(member, generation, shares if member == members[0] else None, group=group)
        return members

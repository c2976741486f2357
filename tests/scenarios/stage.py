"""The stage on which transcripts are played: consumers by name, one group, one coordinator.

A command is one line; the reaction is everything that happened: records (`log: ...`), answers
(`name < ...`), and the state of the group where it has changed. A consumer remembers its member id
and generation (or epoch), so that a transcript speaks of `alice`, not of uuids.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.group_driver import FixedTopics, GroupDriver

from tidelog.groups.consumer_group import MemberState
from tidelog.groups.decision import GroupRecord
from tidelog.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
    RecordedPartitions,
    read_record,
)
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)

GROUP = "g"


@dataclass
class Consumer:
    """What a consumer knows of itself."""

    name: str
    instance: str | None = None
    member_id: str = ""
    epoch: int = -1


class Stage:
    """Plays commands. `play` gives the reaction as lines."""

    def __init__(self) -> None:
        self.driver = GroupDriver(FixedTopics(orders=4))
        self.consumers: dict[str, Consumer] = {}
        self.tickets: dict[int, tuple[str, str]] = {}
        self.lines: list[str] = []
        self.written = 0
        self.state = ""

    def play(self, command: str) -> list[str]:
        self.lines = []
        verb, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        act: Callable[[list[str], dict[str, str]], None] = getattr(self, f"do_{verb}")
        act(names, options)
        self.notice()
        return self.lines or ["(nothing)"]

    # Commands.

    def do_setting(self, names: list[str], options: dict[str, str]) -> None:
        settings = {name: int(value) for name, value in options.items()}
        self.driver = GroupDriver(self.driver.topics, **settings)

    def do_topic(self, names: list[str], options: dict[str, str]) -> None:
        """`topic orders partitions=6`: created, or grown."""
        (name,), count = names, int(options["partitions"])
        if self.driver.topics.topic_id(name) is None:
            self.driver.topics.create(name, count)
        else:
            self.driver.topics.grow(name, count)

    def do_join(self, names: list[str], options: dict[str, str]) -> None:
        consumer = self.consumer(names[0], options)
        if "restarted" in names:
            consumer.member_id = ""
        said = ConsumerProtocolSubscription(
            topics=options.get("topics", "orders").split(","),
            owned_partitions=named(options.get("owned", "")),
        )
        metadata = encode_subscription(said, 1 if "owned" in options else 0)
        protocols = options.get("protocols", "range").split(",")
        ticket = self.driver.join(
            consumer.member_id,
            instance=consumer.instance,
            protocols=dict.fromkeys(protocols, metadata),
            two_step="two-step" in names,
        )
        self.tickets[ticket] = consumer.name, "JoinGroup"

    def do_sync(self, names: list[str], options: dict[str, str]) -> None:
        """`sync alice alice=orders:0,1 bob=orders:2,3`"""
        consumer = self.consumers[names[0]]
        shares = {
            self.consumers[name].member_id: encode_assignment(
                ConsumerProtocolAssignment(assigned_partitions=named(text)), 0
            )
            for name, text in options.items()
        }
        ticket = self.driver.sync(
            consumer.member_id, consumer.epoch, shares, instance=consumer.instance
        )
        self.tickets[ticket] = consumer.name, "SyncGroup"

    def do_heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        consumer = self.consumers[names[0]]
        epoch = int(options.get("generation", consumer.epoch))
        error = self.driver.beat(consumer.member_id, epoch, instance=consumer.instance)
        self.say(consumer.name, "Heartbeat", error.name)

    def do_leave(self, names: list[str], options: dict[str, str]) -> None:
        consumer = self.consumers[names[0]]
        answer = self.driver.leave(consumer.member_id)
        self.say(consumer.name, "LeaveGroup", answer.members[0].error_code.name)

    def do_commit(self, names: list[str], options: dict[str, str]) -> None:
        """`commit alice orders:0 offset=5`; without a name, by somebody who is no member."""
        partition = int(names[-1].partition(":")[2])
        consumer = self.consumers.get(names[0], Consumer("somebody"))
        error = self.driver.commit(
            int(options["offset"]),
            member_id=consumer.member_id,
            generation=int(options.get("generation", consumer.epoch)),
            partition=partition,
            instance=consumer.instance,
        )
        self.say(consumer.name, "OffsetCommit", error.name)

    def do_committed(self, names: list[str], options: dict[str, str]) -> None:
        offset, _ = self.driver.committed(partition=int(names[0].partition(":")[2]))
        self.lines.append(f"{names[0]} committed {offset}")

    def do_pulse(self, names: list[str], options: dict[str, str]) -> None:
        """A ConsumerGroupHeartbeat. `pulse carol join`, `pulse carol owned=orders:0`."""
        consumer = self.consumer(names[0], options)
        consumer.member_id = consumer.member_id or consumer.name
        epoch = int(options.get("epoch", max(consumer.epoch, 0)))
        is_joining = epoch == 0
        owned = {t.topic: t.partitions for t in named(options.get("owned", ""))}
        answer = self.driver.pulse(
            consumer.member_id,
            epoch,
            topics=options["topics"].split(",")
            if "topics" in options
            else (["orders"] if is_joining and "regex" not in options else None),
            regex=options.get("regex"),
            owned=owned if "owned" in options or is_joining else None,
            instance=consumer.instance,
            rebalance_timeout_ms=30_000 if is_joining else -1,
        )
        if answer.error_code is not ErrorCode.NONE:
            self.say(consumer.name, "ConsumerGroupHeartbeat", answer.error_code.name)
            return
        consumer.epoch = answer.member_epoch
        assigned = self.driver.assigned(answer)
        text = "" if assigned is None else f" assigned {in_words(assigned)}"
        self.say(consumer.name, "ConsumerGroupHeartbeat", f"epoch {answer.member_epoch}{text}")

    def do_advance(self, names: list[str], options: dict[str, str]) -> None:
        """`advance 10s`"""
        self.driver.advance(float(names[0].removesuffix("s")) * 1_000)

    def do_crash(self, names: list[str], options: dict[str, str]) -> None:
        """The node dies and starts again; who waited hears nothing."""
        self.notice()
        self.driver.restart()
        self.tickets.clear()

    def consumer(self, name: str, options: dict[str, str]) -> Consumer:
        found = self.consumers.setdefault(name, Consumer(name))
        found.instance = options.get("instance", found.instance)
        return found

    # Reactions.

    def say(self, name: str, api: str, text: str) -> None:
        self.lines.append(f"{name} < {api} {text}")

    def notice(self) -> None:
        """What was written, the answers that have come, and how the group is now."""
        for ticket, (name, api) in list(self.tickets.items()):
            if ticket in self.driver.replies:
                del self.tickets[ticket]
                self.hear(self.consumers[name], api, self.driver.replies[ticket])
        written = [self.record_in_words(record) for record in self.driver.log[self.written :]]
        self.written = len(self.driver.log)
        self.lines[:0] = [f"log: {line}" for line in written if line is not None]
        state = self.state_in_words()
        if state != self.state:
            self.state = state
            self.lines.append(f"state: {state}")
        self.lines = [self.with_names(line) for line in self.lines]

    def hear(self, consumer: Consumer, api: str, answer: Any) -> None:
        if api == "JoinGroup":
            consumer.member_id = answer.member_id or consumer.member_id
            text = str(answer.error_code.name)
            if answer.error_code is ErrorCode.NONE:
                consumer.epoch = answer.generation_id
                text = f"generation {answer.generation_id} protocol {answer.protocol_name}"
                if answer.members:
                    members = " ".join(member.member_id for member in answer.members)
                    text += f" leads {members}"
            self.say(consumer.name, api, text)
            return
        if answer.error_code is not ErrorCode.NONE:
            self.say(consumer.name, api, answer.error_code.name)
            return
        self.say(consumer.name, api, f"share {share_in_words(answer.assignment)}")

    def with_names(self, line: str) -> str:
        """Member ids are told by the consumer's name; those of its former lives as such."""
        for consumer in self.consumers.values():
            if consumer.member_id:
                line = line.replace(consumer.member_id, consumer.name)
        return re.sub(r"[\w-]*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "somebody", line)

    def state_in_words(self) -> str:
        newer = self.driver.newer_state(GROUP)
        return f"{newer} (newer protocol)" if newer != "Dead" else self.driver.state(GROUP)

    def record_in_words(self, record: GroupRecord) -> str | None:
        found = read_record(*record[:3])
        assert found is not None
        return in_record_words(found[0], found[1], self.driver.topics)


def in_record_words(key: Any, value: Any, topics: FixedTopics) -> str | None:
    """One line for what a record says; nothing for those that only repeat it."""
    if isinstance(key, OffsetCommitKey):
        offset = "no offset" if value is None else f"offset {value.offset}"
        return f"{key.topic}:{key.partition} {offset}"
    if isinstance(key, GroupMetadataKey):
        if value is None:
            return "no classic group"
        members = " ".join(member.member_id for member in value.members) or "nobody"
        settled = " unsettled" if value.is_unsettled else ""
        return f"generation {value.generation}{settled} of {members}"
    if isinstance(key, ConsumerGroupMetadataKey):
        return "no newer group" if value is None else f"group epoch {value.epoch}"
    if isinstance(key, ConsumerGroupMemberMetadataKey):
        return f"{'no member' if value is None else 'member'} {key.member_id}"
    if isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
        return None if value is None else f"target epoch {value.assignment_epoch}"
    if isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
        if value is None:
            return None
        return f"target {key.member_id} {recorded_in_words(value.topic_partitions, topics)}"
    if isinstance(key, ConsumerGroupRegularExpressionKey):
        return None if value is None else f"{key.regular_expression} is {' '.join(value.topics)}"
    assert isinstance(key, ConsumerGroupCurrentMemberAssignmentKey)
    if value is None:
        return None
    line = f"current {key.member_id} epoch {value.member_epoch} {MemberState(value.state).name}"
    line += f" has {recorded_in_words(value.assigned_partitions, topics)}"
    if value.partitions_pending_revocation:
        line += f" revokes {recorded_in_words(value.partitions_pending_revocation, topics)}"
    return line


def named(text: str) -> list[TopicPartition]:
    """`orders:0,1;invoices:0`"""
    found = []
    for part in filter(None, text.split(";")):
        topic, _, numbers = part.partition(":")
        partitions = [int(number) for number in numbers.split(",") if number]
        found.append(TopicPartition(topic=topic, partitions=partitions))
    return found


def in_words(assigned: dict[str, list[int]]) -> str:
    parts = [f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in assigned.items()]
    return ";".join(parts) or "nothing"


def recorded_in_words(partitions: list[RecordedPartitions], topics: FixedTopics) -> str:
    return in_words({topics.name(t.topic_id) or "gone": t.partitions for t in partitions})


def share_in_words(assignment: bytes) -> str:
    if not assignment:
        return "nothing"
    topics = decode_assignment(assignment).assigned_partitions
    return in_words({topic.topic: topic.partitions for topic in topics})

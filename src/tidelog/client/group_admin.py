"""Groups: who is in them, what they have committed, and changing that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConsumerGroupDescription,
    ConsumerGroupListing,
)

from tidelog.client import direct
from tidelog.client.admin_session import AdminSession
from tidelog.client.errors import UnknownGroup, no_group
from tidelog.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Member:
    """One consumer of a group, and what it reads."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group. `state` and `type` are Kafka's words in lower case: "stable", "classic"."""

    name: str
    state: str
    type: str
    assignor: str = ""
    members: tuple[Member, ...] = ()


class GroupAdmin(AdminSession):
    """Asks about groups and changes their offsets."""

    def groups(self) -> list[Group]:
        """All groups by name, without their members: `group` has those."""
        result = self._wait(self._client.list_consumer_groups(**self._timeout))
        if result.errors:
            raise self._explained(result.errors[0])
        listed = (Group(row.group_id, _state(row), _word(row.type)) for row in result.valid)
        return sorted(listed, key=lambda group: group.name)

    def group(self, name: str) -> Group:
        """One group with its members; `UnknownGroup` if there is none of that name."""
        for found in self.described([name]):
            return found
        raise no_group(name)

    def described(self, names: Iterable[str]) -> list[Group]:
        """These groups with their members, asked together; without those that are gone."""
        wanted = list(names)
        if not wanted:
            return []
        asked = self._client.describe_consumer_groups(wanted, **self._timeout)
        found = []
        for name in wanted:
            try:
                row = self._wait(asked[name], group=name)
            except UnknownGroup:
                continue
            if _word(row.state) != "dead":
                found.append(_group(row))
        return found

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The next offset to read of each partition the group has committed one for."""
        return self.committed_by([group])[group]

    def committed_by(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        """The same of many groups: all are asked before the first has answered."""
        asked = {
            group: self._client.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], **self._timeout
            )[group]
            for group in groups
        }
        answers = {
            group: self._wait(future, group=group).topic_partitions
            for group, future in asked.items()
        }
        return {
            group: {_ours(row): row.offset for row in sorted(rows) if row.offset >= 0}
            for group, rows in answers.items()
        }

    def set_committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Make the group go on from there. It must have no members at the time."""
        rows = [confluent_kafka.TopicPartition(*place, at) for place, at in offsets.items()]
        if not rows:
            return
        asked = self._client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, rows)], **self._timeout
        )
        for row in self._wait(asked[group], group=group).topic_partitions:
            if row.error is not None:
                raise self._explained(
                    confluent_kafka.KafkaException(row.error), topic=row.topic, group=group
                )

    def delete_committed(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """The group forgets these offsets. No member may be subscribed to their topics."""
        direct.delete_offsets(self._connection, group, partitions)

    def delete_group(self, name: str) -> None:
        """With all it has committed. It must have no members."""
        self._wait(self._client.delete_consumer_groups([name], **self._timeout)[name], group=name)


def _group(row: ConsumerGroupDescription) -> Group:
    members = (
        Member(
            member.member_id,
            member.client_id,
            member.host,
            member.group_instance_id,
            tuple(sorted(_ours(each) for each in member.assignment.topic_partitions)),
        )
        for member in row.members
    )
    return Group(
        row.group_id,
        _state(row),
        _word(row.type),
        row.partition_assignor,
        tuple(sorted(members, key=lambda member: (member.client_id, member.member_id))),
    )


def _ours(row: confluent_kafka.TopicPartition) -> TopicPartition:
    return TopicPartition(row.topic, row.partition)


def _state(row: ConsumerGroupDescription | ConsumerGroupListing) -> str:
    """The newer protocol's two states of unrest have no name in librdkafka: "rebalancing"."""
    state = _word(row.state).replace("rebalancing", "rebalance")
    return "rebalancing" if state == "unknown" and _word(row.type) == "consumer" else state


def _word(state: object) -> str:
    """`ConsumerGroupState.STABLE` is "stable"."""
    return str(getattr(state, "name", state or "unknown")).lower().replace("_", " ")

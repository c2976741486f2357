"""OffsetFetch: the offset that a group has committed for one partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.history import EntryType
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

API_KEY = 9
FIRST_WITH_EPOCHS = 9


@dataclass(slots=True, frozen=True)
class FetchOffsetPlan:
    """`asks_for_all`: no topics are named (version 2 and later). `member_id` and `epoch` are those
    of a member of the newer protocol (version 9 and later)."""

    group: str
    topic: TopicFacts
    partition: int
    version: int
    asks_for_all: bool = False
    member_id: str | None = None
    epoch: int = -1

    @property
    def tp(self) -> tuple[str, int]:
        return self.topic.label, self.partition


@dataclass(slots=True, frozen=True)
class FetchedOffset:
    """`offset` is -1 where nothing is committed. `metadata` came with the commit."""

    type: EntryType
    offset: int
    metadata: str
    error: ErrorCode


def sample(random: Random, world: World, *, group: str) -> FetchOffsetPlan:
    topic, partition = world.draw_tp()
    version = world.draw_version(API_KEY)
    asks_for_all = version >= 2 and random.random() < 0.2
    return FetchOffsetPlan(group, topic, partition, version, asks_for_all)


def build(plan: FetchOffsetPlan) -> OffsetFetchRequest:
    """In the form of the plan's version: one group, or a list of groups."""
    name, indexes = plan.topic.name, [plan.partition]
    if plan.version < 8:
        single = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes)]
        return OffsetFetchRequest(group_id=plan.group, topics=None if plan.asks_for_all else single)
    topic = OffsetFetchRequestTopics(
        name=name, topic_id=plan.topic.topic_id, partition_indexes=indexes
    )
    group = OffsetFetchRequestGroup(
        group_id=plan.group,
        member_id=plan.member_id,
        member_epoch=plan.epoch,
        topics=None if plan.asks_for_all else [topic],
    )
    return OffsetFetchRequest(groups=[group])


def classify(plan: FetchOffsetPlan, response: OffsetFetchResponse) -> FetchedOffset:
    """A fetch changes nothing: an error is a `fail`. Of a partition that a fetch of all topics
    leaves out, nothing is committed."""
    error = response.groups[0].error_code if plan.version >= 8 else response.error_code
    if error is not ErrorCode.NONE:
        return FetchedOffset("fail", -1, "", error)
    for partition in _partitions(plan, response):
        if partition.partition_index == plan.partition:
            error = partition.error_code
            type: EntryType = "ok" if error is ErrorCode.NONE else "fail"
            return FetchedOffset(type, partition.committed_offset, partition.metadata or "", error)
    if plan.asks_for_all:
        return FetchedOffset("ok", -1, "", ErrorCode.NONE)
    return FetchedOffset("fail", -1, "", ErrorCode.UNKNOWN_SERVER_ERROR)


def _partitions(
    plan: FetchOffsetPlan, response: OffsetFetchResponse
) -> Iterator[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]:
    """Those of the topic, wherever the version has put them."""
    if plan.version < 8:
        for single in response.topics:
            if single.name == plan.topic.name:
                yield from single.partitions
        return
    for topic in response.groups[0].topics:
        is_by_id = plan.version >= 10
        if topic.topic_id == plan.topic.topic_id if is_by_id else topic.name == plan.topic.name:
            yield from topic.partitions


def predict(plan: FetchOffsetPlan, world: World, life: int) -> tuple[ErrorCode, ...]:
    """A coordinator that cannot write does not tell, either: it may be behind."""
    excuses = world.coordinator_excuses(life)
    if plan.member_id is None:
        return excuses
    return (*excuses, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH)

"""A fetch session that looks only at what has moved answers as one that looks at everything.

Two nodes live through the same story, drawn from a seed. One of them has all partitions of all
sessions looked at whenever it does something; every answer must be the same, and come in the same
step.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast
from uuid import UUID

import pytest
from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.broker.controller_link import ControllerLink
from tidelog.broker.effects import Effect
from tidelog.broker.events import Event
from tidelog.broker.peers import Peers
from tidelog.broker.replication import Replication
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TOPIC_ID, LeaderEpoch, NodeId
from tidelog.sim.disk import SimDisk
from tidelog.wire.batch import read_header
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tidelog.wire.records import Record, encode_batch

SEEDS = 60
SEEDS_PER_TEST = 10
ACTIONS = 200
TOPICS = ("orders", "events")
PARTITIONS = 3
OTHER = NodeId(2)

Item = tuple[str, UUID, int]
"""A partition by its topic's name or by its id."""


class Watchful(NodeDriver):
    """It looks at all partitions of all sessions in every step."""

    def step(self, event: Event) -> list[Effect]:
        for session in self.node.state.sessions.sessions():
            session.look_at_all()
        return super().step(event)


class Reader:
    """A consumer's view of its session."""

    def __init__(self, random: Random, *, version: int) -> None:
        self.version = version
        self.waits_for: int | None = None
        """Its fetch under way."""
        self._random = random
        self._start_over()

    def _start_over(self) -> None:
        self._session_id = self._epoch = 0
        self._offsets: dict[Item, int] = {}
        self._changed: dict[Item, None] = {}

    def request(self, topics: dict[str, UUID]) -> FetchRequest:
        """Some it describes anew without need, some it forgets, some are new."""
        random = self._random
        known = list(self._offsets)
        forgotten = [item for item in known if self._epoch and random.random() < 0.03]
        for item in forgotten:
            del self._offsets[item]
        for topic, topic_id in topics.items():
            by_id = self.version >= 13
            for partition in range(PARTITIONS):
                item = ("", topic_id, partition) if by_id else (topic, NO_TOPIC_ID, partition)
                if item not in self._offsets and random.random() < 0.3:
                    self._offsets[item] = 0
                    self._changed[item] = None
        wanted = known if random.random() < 0.1 else list(self._changed)
        named = [item for item in wanted if item in self._offsets]
        self._changed = {}
        return FetchRequest(
            max_wait_ms=random.choice((0, 300, 1000)),
            min_bytes=random.choice((1, 1, 200)),
            max_bytes=random.choice((1, 150, 1 << 20)),
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[self._described(item) for item in named],
            forgotten_topics_data=[
                ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[partition])
                for topic, topic_id, partition in forgotten
            ],
        )

    def _described(self, item: Item) -> FetchTopic:
        topic, topic_id, partition = item
        row = FetchPartition(
            partition=partition,
            fetch_offset=self._offsets[item],
            partition_max_bytes=self._random.choice((100, 1 << 20)),
        )
        return FetchTopic(topic=topic, topic_id=topic_id, partitions=[row])

    def take(self, response: FetchResponse) -> None:
        if response.error_code is not ErrorCode.NONE or self._random.random() < 0.02:
            self._start_over()
            return
        self._session_id = response.session_id
        self._epoch = self._epoch + 1 if self._session_id else 0
        for topic in response.responses:
            for data in topic.partitions:
                self._take((topic.topic, topic.topic_id, data.partition_index), data)
        if not self._session_id:
            self._start_over()

    def _take(self, item: Item, data: PartitionData) -> None:
        if item not in self._offsets:
            return
        if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._offsets[item] = max(0, data.log_start_offset)
            self._changed[item] = None
        records = memoryview(data.records)  # type: ignore[arg-type]
        at = 0
        while at + 61 <= len(records):
            header = read_header(records[at:])
            if header.size > len(records) - at:
                break
            self._offsets[item] = header.next_offset
            self._changed[item] = None
            at += header.size


class Story:
    """What happens to both nodes."""

    def __init__(self, seed: int, path: Path) -> None:
        self.random = Random(seed)
        policy = self.random.choice(("os", "ack"))
        self.nodes = [
            kind(path, SimDisk(Random(seed)), flush_policy=policy)
            for kind in (NodeDriver, Watchful)
        ]
        self.readers = [Reader(self.random, version=version) for version in (12, 16, 16)]
        self.connections = [[node.connect() for _ in self.readers] for node in self.nodes]
        self.answered = 0
        for topic in TOPICS:
            self._create(topic)

    def play(self) -> int:
        actions = (
            *[self._fetch] * 12,
            *[self._produce] * 6,
            *[self._pass_time] * 3,
            self._hold_flushes,
            self._finish_flushes,
            self._delete_records,
            self._delete_or_create,
            self._change_role,
            self._change_role,
            *[self._follow] * 4,
        )
        for _ in range(ACTIONS):
            self.random.choice(actions)()
            self._compare()
        return self.answered

    def _compare(self) -> None:
        one, other = (node.responses for node in self.nodes)
        assert one == other
        for reader in self.readers:
            if reader.waits_for is not None and reader.waits_for in one:
                reader.take(one[reader.waits_for])
                reader.waits_for = None
                self.answered += 1

    @property
    def _ids(self) -> dict[str, UUID]:
        image = self.nodes[0].node.state.image
        return {name: image.topics[name].topic_id for name in TOPICS if name in image.topics}

    def _submit(self, request: object, version: int | None = None) -> None:
        for node in self.nodes:
            node.submit(request, version=version)

    def _somewhere(self) -> tuple[str, int]:
        return self.random.choice(TOPICS), self.random.randrange(PARTITIONS)

    def _fetch(self) -> None:
        number = self.random.randrange(len(self.readers))
        reader = self.readers[number]
        if reader.waits_for is not None:
            return
        request = reader.request(self._ids)
        for node, connections in zip(self.nodes, self.connections, strict=True):
            reader.waits_for = node.submit(
                request, version=reader.version, connection=connections[number]
            )

    def _produce(self) -> None:
        topic, partition = self._somewhere()
        records = batch_of(*[b"v" * self.random.randrange(80)] * self.random.randint(1, 3))
        acks = self.random.choice((0, 1, -1))
        self._submit(produce_request(topic, records, partition=partition, acks=acks), 9)

    def _pass_time(self) -> None:
        milliseconds = self.random.choice((10, 200, 1500))
        for node in self.nodes:
            node.advance(milliseconds)

    def _hold_flushes(self) -> None:
        for node in self.nodes:
            node.holds_flushes = True

    def _finish_flushes(self) -> None:
        for node in self.nodes:
            node.holds_flushes = False
            node.finish_flushes()

    def _delete_records(self) -> None:
        topic, partition = self._somewhere()
        row = DeleteRecordsPartition(partition_index=partition, offset=self.random.choice((-1, 2)))
        self._submit(
            DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=topic, partitions=[row])], timeout_ms=1000
            )
        )

    def _create(self, topic: str) -> None:
        for node in self.nodes:
            made = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)
            node.submit(CreateTopicsRequest(topics=[made]))

    def _delete_or_create(self) -> None:
        topic = self.random.choice(TOPICS)
        if topic not in self._ids:
            self._create(topic)
            return
        self._submit(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=1000))

    def _change_role(self) -> None:
        """Another leader epoch, in which this node leads, or follows."""
        name, partition = self._somewhere()
        leader = self.random.choice((NodeId(1), OTHER))
        for driver in self.nodes:
            state = driver.node.state
            replica = state.replicas.find(name, partition)
            if isinstance(replica, ErrorCode):
                continue
            changed = replace(
                replica.state,
                leader=leader,
                leader_epoch=LeaderEpoch(replica.leader_epoch + 1),
                replicas=(NodeId(1), OTHER),
                isr=(leader,),
            )
            state.replicas._changed[replica] = None  # as `Replicas._follow` does
            replica.follow(changed, driver.now_ms)
            state.replicas.following.place(replica)
            state.roles_changed()
        self._pass_time()

    def _follow(self) -> None:
        """Its leaders answer with records, a watermark, or where the logs part."""
        number = self.random.random()
        for driver in self.nodes:
            state = driver.node.state
            no_link = cast("ControllerLink", None)
            place = Replication(state, Peers(NodeId(1)), no_link, endpoint_of=lambda node: None)
            for fetch in state.replicas.following.next_fetches(driver.now_ms):
                response = answer_of_a_leader(Random(number), fetch.request)
                place._fetched(driver.now, fetch, response)
        self._fetch()
        self._pass_time()


def answer_of_a_leader(random: Random, request: FetchRequest) -> FetchResponse:
    topics = []
    for topic in request.topics:
        rows = []
        for asked in topic.partitions:
            offset = asked.fetch_offset
            row = PartitionData(
                partition_index=asked.partition,
                high_watermark=offset + random.randrange(4),
                log_start_offset=0,
                aborted_transactions=None,
                records=b"",
            )
            kind = random.choice(("records", "records", "parts", "nothing"))
            if kind == "records":
                row.records = encode_batch(
                    [Record(offset=offset, timestamp=1_700_000_000_000, value=b"from the leader")],
                    base_offset=offset,
                    leader_epoch=asked.current_leader_epoch,
                )
            elif kind == "parts" and offset > 0:
                row.diverging_epoch = EpochEndOffset(
                    epoch=asked.last_fetched_epoch, end_offset=offset - 1
                )
            rows.append(row)
        topics.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=rows))
    return FetchResponse(responses=topics)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_what_is_not_looked_at_has_no_news(first: int, tmp_path: Path) -> None:
    answered = sum(Story(seed, tmp_path).play() for seed in range(first, first + SEEDS_PER_TEST))
    assert answered > SEEDS_PER_TEST * 20

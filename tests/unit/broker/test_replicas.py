"""What a member keeps while its metadata is still of long ago, and once it is not."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from tests.unit.log.logs import a_batch, append, flush

from tidelog.broker.replicas import Replicas
from tidelog.broker.topic_directories import DELETED_AT_ONCE
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import Image
from tidelog.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionKey, TopicId
from tidelog.model.safeguards import ALL_SAFEGUARDS
from tidelog.partition.membership import Membership
from tidelog.sim.disk import SimDisk

ME = NodeId(1)
TOPIC_ID = TopicId(UUID(int=7))
KEY = PartitionKey(TOPIC_ID, 0)
HERE, ELSEWHERE = [1, 2, 3], [2, 3, 4]


class Member:
    """The replicas of one life after the other on one disk."""

    def __init__(self) -> None:
        self.disk = SimDisk(Random(1))
        self.disk.make_directory("topics")
        self.begin()

    def begin(self) -> None:
        membership = Membership(ME)
        membership.is_caught_up = membership.may_lead = False
        self.image = Image()
        self.replicas = Replicas(self.disk, {}, membership=membership, safeguards=ALL_SAFEGUARDS)

    def read(self, *records: MetadataRecord) -> None:
        delta: Delta
        self.image, delta = self.image.replay(records)
        self.replicas.apply(self.image, delta, now_ms=0.0)

    def catch_up(self) -> None:
        self.replicas.catch_up(now_ms=0.0)
        while self.replicas.has_deferred:
            self.replicas.open_deferred(1)
        self.replicas.validate()


def _created(*, replicas: list[int], partitions: int = 1) -> list[MetadataRecord]:
    made: list[MetadataRecord] = [
        PartitionRecord(
            topic_id=TOPIC_ID,
            partition=number,
            replicas=replicas,
            isr=replicas,
            leader=2,
            leader_epoch=0,
        )
        for number in range(partitions)
    ]
    return [TopicRecord(name="orders", topic_id=TOPIC_ID), *made]


def _moved(replicas: list[int]) -> MetadataRecord:
    return PartitionChangeRecord(topic_id=TOPIC_ID, partition=0, replicas=replicas, isr=replicas)


def _led_by(leader: int) -> MetadataRecord:
    return PartitionChangeRecord(topic_id=TOPIC_ID, partition=0, leader=leader)


@pytest.fixture
def member() -> Member:
    """It was there when the copy moved away and came back, and has a record of epoch 1."""
    one = Member()
    one.catch_up()
    one.read(*_created(replicas=HERE))
    one.read(_moved(ELSEWHERE))
    one.read(_moved(HERE))
    one.read(_led_by(3))
    log = one.replicas.by_key[KEY].log
    append(log, a_batch(), epoch=1)
    flush(log)
    one.begin()
    return one


def test_nobody_is_followed_by_metadata_of_the_past(member: Member) -> None:
    """Node 2 led in epoch 0, may believe that it still does, and would have the log cut."""
    member.read(*_created(replicas=HERE))
    assert member.replicas.following.next_fetches(0.0) == []
    assert member.replicas.find("orders", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    member.read(_moved(ELSEWHERE), _moved(HERE), _led_by(3))
    member.catch_up()
    (fetch,) = member.replicas.following.next_fetches(0.0)
    assert fetch.source == 3
    (asked,) = fetch.request.topics[0].partitions
    assert (asked.current_leader_epoch, asked.fetch_offset) == (LeaderEpoch(1), 1)


def test_a_copy_that_moved_away_and_came_back_is_still_there(member: Member) -> None:
    for record in (*_created(replicas=HERE), _moved(ELSEWHERE), _moved(HERE), _led_by(3)):
        member.read(record)
    member.catch_up()
    assert member.replicas.by_key[KEY].log.log_end_offset == 1


def test_a_copy_that_moved_away_in_its_absence_is_deleted_when_the_node_is_let_in(
    member: Member,
) -> None:
    (topic,) = member.disk.list("topics")
    member.read(*_created(replicas=HERE), _moved(ELSEWHERE))
    member.catch_up()
    assert member.disk.list(f"topics/{topic}") == ["0"]
    assert member.replicas.let_in(0.0) == []
    assert member.disk.list(f"topics/{topic}") == []


def test_a_copy_that_comes_back_before_its_directory_is_deleted_begins_anew(
    member: Member,
) -> None:
    member.read(*_created(replicas=HERE), _led_by(3))
    member.catch_up()
    directories = member.replicas.directories
    directories.doom(*(f"topics/other.{number}" for number in range(2 * DELETED_AT_ONCE)))
    member.read(_moved(ELSEWHERE))
    assert directories.has_doomed
    member.read(_moved(HERE))
    assert member.replicas.by_key[KEY].log.log_end_offset == 0
    directories.delete_doomed(1000)
    (topic,) = member.disk.list("topics")
    assert member.disk.list(f"topics/{topic}/0")


def test_the_logs_that_are_there_are_opened_a_few_at_a_time(member: Member) -> None:
    """After a crash each may take some syncs, and others wait for this node's vote."""
    member.read(*_created(replicas=HERE, partitions=3))
    member.replicas.catch_up(now_ms=0.0)
    opened = []
    while member.replicas.has_deferred:
        opened.append(len(member.replicas.by_key))
        member.replicas.open_deferred(1)
    assert opened == [0, 1, 2]


def test_what_changes_before_a_log_is_opened_does_not_open_it(member: Member) -> None:
    member.read(*_created(replicas=HERE))
    member.replicas.catch_up(now_ms=0.0)
    member.read(_led_by(3))
    assert KEY not in member.replicas.by_key
    member.replicas.open_deferred(1)
    (fetch,) = member.replicas.following.next_fetches(0.0)
    assert fetch.source == 3


def test_a_copy_that_moves_away_before_its_log_is_opened_is_not_opened(member: Member) -> None:
    member.read(*_created(replicas=HERE))
    member.replicas.catch_up(now_ms=0.0)
    member.read(_moved(ELSEWHERE))
    assert not member.replicas.has_deferred
    assert KEY not in member.replicas.by_key


def test_what_follows_the_catching_up_is_followed_at_once(member: Member) -> None:
    member.read(*_created(replicas=HERE), _led_by(3))
    member.catch_up()
    member.read(_moved(ELSEWHERE))
    assert KEY not in member.replicas.by_key


def test_a_copy_that_found_no_room_is_made_when_there_is_some(member: Member) -> None:
    member.begin()
    member.catch_up()
    member.disk.faults.capacity_bytes = 0
    member.read(
        TopicRecord(name="late", topic_id=UUID(int=8)),
        PartitionRecord(
            topic_id=UUID(int=8), partition=0, replicas=HERE, isr=HERE, leader=2, leader_epoch=0
        ),
    )
    assert member.replicas.has_unopened
    member.replicas.open_rest()
    assert member.replicas.has_unopened
    member.disk.faults.capacity_bytes = None
    member.replicas.open_rest()
    assert not member.replicas.has_unopened
    assert [fetch.source for fetch in member.replicas.following.next_fetches(0.0)] == [2]

"""Records make the image, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.paths import EPOCHS
from tidelog.metadata.image import Image
from tidelog.metadata.journal import DIRECTORY, Journal, JournalDamaged
from tidelog.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    MetadataRecord,
    NodeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from tidelog.model.clock import Now
from tidelog.model.ids import TopicId
from tidelog.runtime.file_disk import FileDisk
from tidelog.wire.errors import DecodeError

ORDERS = UUID(int=1)

NOW = Now(0.0, 1_700_000_000_000)


def partition(index: int, epoch: int = 0, topic_id: UUID = ORDERS) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id, partition=index, replicas=[1], isr=[1], leader=1, leader_epoch=epoch
    )


CREATED: list[MetadataRecord] = [
    ClusterRecord(cluster_id="c"),
    NodeRecord(node_id=1, host="h", port=9092, rack=None, epoch=1),
    TopicRecord(name="orders", topic_id=ORDERS),
    ConfigRecord(topic_id=ORDERS, name="segment.bytes", value="2048"),
    partition(0),
    partition(1),
]


def test_records_become_topics_partitions_and_configs() -> None:
    image, delta = Image().replay(CREATED)
    image.validate()
    topic = image.topics["orders"]
    assert [state.key.partition for state in topic.partitions] == [0, 1]
    assert topic.configs == {"segment.bytes": "2048"}
    assert image.topic_by_id(TopicId(ORDERS)) is topic
    assert delta.created == [ORDERS]
    assert [key.partition for key in delta.partitions] == [0, 1]


def test_an_image_never_changes_under_its_reader() -> None:
    before, _ = Image().replay(CREATED)
    after, _ = before.replay(
        [RemoveTopicRecord(topic_id=ORDERS), ProducerIdsRecord(next_producer_id=9)]
    )
    assert "orders" in before.topics
    assert "orders" not in after.topics
    assert after.removed == {ORDERS: "orders"}
    assert (before.next_producer_id, after.next_producer_id) == (0, 9)
    assert after.version > before.version
    after.validate()


def test_an_image_that_nobody_validates_gathers_nothing_for_it() -> None:
    """A node in production never does: what grew with each change would be copied with each."""
    image, _ = Image().replay(CREATED)
    for epoch in range(1, 20):
        image, _ = image.replay([partition(0, epoch)])
    assert image._unchecked.topics == ()
    image.validate()
    image, _ = image.replay([partition(1, 20)])
    assert image._unchecked.topics == ("orders",)


def test_a_partition_record_again_changes_its_leader_epoch() -> None:
    image, _ = Image().replay([*CREATED, partition(1, epoch=4)])
    assert [state.leader_epoch for state in image.topics["orders"].partitions] == [0, 4]
    assert image.partition_count == 2


def test_a_config_without_a_value_is_the_default_again() -> None:
    record = ConfigRecord(topic_id=ORDERS, name="segment.bytes", value=None)
    image, _ = Image().replay([*CREATED, record])
    assert image.topics["orders"].configs == {}


@pytest.mark.parametrize("record", [*CREATED, RemoveTopicRecord(topic_id=ORDERS)])
def test_a_record_survives_its_bytes(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize("data", [b"", b"\x01", b"\xff\x00", b"\x01\x63abc", b"\x01\x00\x7f"])
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_record(data)


@given(st.lists(st.integers(min_value=1, max_value=6), min_size=1, max_size=6))
def test_replaying_in_parts_gives_the_same_facts_as_at_once(sizes: list[int]) -> None:
    at_once, _ = Image().replay(CREATED)
    image, left = Image(), list(CREATED)
    for size in sizes:
        image, _ = image.replay(left[:size])
        left = left[size:]
    image, _ = image.replay(left)
    assert (image.topics, image.nodes, image.names) == (
        at_once.topics,
        at_once.nodes,
        at_once.names,
    )


class TestJournal:
    def test_records_are_committed_once_flushed_and_replayed_at_start(self, tmp_path: Path) -> None:
        journal = Journal.open(FileDisk(tmp_path), clean=False)
        last = journal.append(CREATED, NOW)
        assert journal.take_committed() == []
        ticket = journal.flush_ticket()
        assert ticket is not None
        for target in ticket.targets:
            target.sync()
        journal.log.flushed(ticket)
        assert journal.take_committed() == CREATED
        assert journal.committed_offset == last + 1
        assert Journal.open(FileDisk(tmp_path), clean=False).read_all() == CREATED

    def test_a_damaged_journal_is_not_guessed_at(self, tmp_path: Path) -> None:
        journal = Journal.open(FileDisk(tmp_path), clean=False)
        for _ in range(3):
            journal.append(CREATED, NOW)
        journal.log.close_cleanly()
        path = tmp_path / DIRECTORY / "00000000000000000000.log"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
        with pytest.raises(JournalDamaged, match="damaged at offset"):
            Journal.open(FileDisk(tmp_path), clean=True).read_all()

    def test_a_journal_that_is_refused_for_damage_is_left_as_it_is(self, tmp_path: Path) -> None:
        """A disk may read the same bytes right the next time, and then the node starts. Neither the
        mark nor the epochs of before the damage may help: the first is behind, the others gone."""
        journal = Journal.open(FileDisk(tmp_path), clean=False)
        for _ in range(3):
            journal.append(CREATED, NOW)
            ticket = journal.flush_ticket()
            assert ticket is not None
            journal.flushed(ticket, NOW)
        home = tmp_path / DIRECTORY
        (home / EPOCHS).unlink(missing_ok=True)
        path = home / "00000000000000000000.log"
        sound = path.read_bytes()
        path.write_bytes(bytes((sound[0], sound[1] ^ 1)) + sound[2:])
        before = {file.name: file.read_bytes() for file in home.iterdir()}

        with pytest.raises(JournalDamaged, match="damaged at offset 0"):
            Journal.open(FileDisk(tmp_path), clean=False)

        assert {file.name: file.read_bytes() for file in home.iterdir()} == before
        path.write_bytes(sound)
        assert Journal.open(FileDisk(tmp_path), clean=False).read_all() == CREATED * 3

    def test_a_journal_that_has_lost_its_end_is_refused(self, tmp_path: Path) -> None:
        journal = Journal.open(FileDisk(tmp_path), clean=False)
        for _ in range(2):
            journal.append(CREATED, NOW)
            ticket = journal.flush_ticket()
            assert ticket is not None
            journal.flushed(ticket, NOW)
        path = tmp_path / DIRECTORY / "00000000000000000000.log"
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(JournalDamaged, match=f"damaged at offset {len(CREATED)}"):
            Journal.open(FileDisk(tmp_path), clean=False)
        path.write_bytes(whole)
        assert Journal.open(FileDisk(tmp_path), clean=False).read_all() == CREATED * 2

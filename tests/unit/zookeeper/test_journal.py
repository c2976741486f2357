"""The journal that agrees by ZooKeeper: who is controller, what counts, what becomes of a write
that was not answered, and what the end of a session means."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from tests.support.zookeeper_world import TIMEOUT_MS, Member, World

from tidelog.metadata.journal import NotController, Unreachable
from tidelog.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.zookeeper.paths import CONTROLLER, LOG, SNAPSHOTS, state_path, topic_path
from tidelog.zookeeper.requests import Create, Delete

TOPIC_ID = UUID(int=7)


def ids(number: int) -> ProducerIdsRecord:
    return ProducerIdsRecord(next_producer_id=number)


def topic(partitions: int = 1, *, topic_id: UUID = TOPIC_ID) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [TopicRecord(name="orders", topic_id=topic_id)]
    for number in range(partitions):
        records.append(
            PartitionRecord(
                topic_id=topic_id,
                partition=number,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
            )
        )
    return records


def leader_of(world: World) -> Member:
    """The one in office."""
    world.run_until(lambda: any(member.journal.is_active for member in world.members))
    (found,) = [member for member in world.members if member.journal.is_active]
    return found


def agree(world: World, number: int) -> None:
    world.run_until(lambda: all(each.image.next_producer_id == number for each in world.members))


def test_one_of_three_is_controller_and_all_know_it() -> None:
    world = World()
    members = [world.add(number) for number in (1, 2, 3)]
    leader = leader_of(world)
    world.run_until(lambda: all(m.journal.leader_id == leader.node_id for m in members))
    assert members[0].journal.told_endpoint(leader.node_id) == (f"host{leader.node_id}", 9092)
    world.run_until(lambda: sorted(leader.journal.present or ()) == [1, 2, 3])


def test_what_the_controller_decides_reaches_everybody_in_order() -> None:
    world = World()
    for number in (1, 2, 3):
        world.add(number)
    leader = leader_of(world)
    offsets = [leader.propose(ids(number)) for number in range(1, 40)]
    assert offsets == list(range(39))
    agree(world, 39)
    assert {member.journal.committed_offset for member in world.members} == {39}


def test_decisions_made_while_one_is_being_written_share_the_next_write() -> None:
    world = World()
    world.add(1)
    leader = leader_of(world)
    for number in range(1, 11):
        leader.propose(ids(number))
    agree(world, 10)
    assert len(world.names(LOG)) == 2


def test_nobody_but_the_controller_may_decide() -> None:
    world = World()
    world.add(1)
    world.add(2)
    leader = leader_of(world)
    (other,) = [member for member in world.members if member is not leader]
    with pytest.raises(NotController):
        other.propose(ids(1))


def test_a_node_that_comes_late_reads_all_that_was_decided() -> None:
    world = World()
    world.add(1)
    leader = leader_of(world)
    for number in range(1, 200):
        leader.propose(ids(number))
        world.run(3.0)
    world.add(2)
    agree(world, 199)


def test_a_snapshot_takes_the_place_of_the_log_and_a_late_node_begins_with_it() -> None:
    world = World()
    leader = world.add(1, records_per_snapshot=20)
    leader_of(world)
    for number in range(1, 31):
        leader.propose(ids(number))
        world.run(3.0)
    agree(world, 30)
    leader.keep_snapshot()
    world.run_until(lambda: world.names(LOG) == () and len(world.names(SNAPSHOTS)) == 1)
    leader.propose(ids(31))
    late = world.add(2)
    agree(world, 31)
    assert late.image == leader.image
    for number in range(32, 70):
        leader.propose(ids(number))
    agree(world, 69)
    leader.keep_snapshot()
    world.run_until(lambda: world.names(LOG) == () and len(world.names(SNAPSHOTS)) == 1)


def test_a_batch_too_large_for_a_znode_is_written_in_pieces() -> None:
    world = World()
    for number in (1, 2):
        world.add(number)
    leader = leader_of(world)
    leader.propose(*topic())
    long = "x" * 1000
    leader.propose(
        *(ConfigRecord(topic_id=TOPIC_ID, name=f"c{n}", value=long) for n in range(1500))
    )
    world.run_until(lambda: all(m.image.topics.get("orders") for m in world.members))
    world.run_until(
        lambda: all(len(m.image.topics["orders"].configs) == 1500 for m in world.members)
    )
    assert any("-" in name for name in world.names(LOG))


# --- writes that were not answered --------------------------------------------------------------


@pytest.mark.parametrize("after_ms", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_write_that_was_not_answered_happens_once(after_ms: float, seed: int) -> None:
    world = World(seed)
    for number in (1, 2):
        world.add(number)
    leader = leader_of(world)
    world.run(50.0)
    leader.propose(ids(1), ids(2))
    world.schedule.run(until_ms=world.schedule.now_ms + after_ms)
    leader.link.reset()
    world.run_until(lambda: leader.journal.committed_offset == leader.journal.last_offset + 1)
    world.run(50.0)
    leader.propose(ids(3))
    agree(world, 3)
    assert {member.journal.committed_offset for member in world.members} == {3}
    assert leader.journal.epoch == 1, "a broken connection is no reason to leave the office"


def test_nothing_is_decided_while_zookeeper_is_away_and_the_office_is_kept() -> None:
    world = World()
    world.add(1)
    world.add(2)
    leader = leader_of(world)
    leader.propose(ids(1))
    agree(world, 1)
    world.service.go_away()
    world.run_until(lambda: all(member.journal.is_cut_off for member in world.members))
    with pytest.raises(Unreachable):
        leader.propose(ids(2))
    world.run(10 * TIMEOUT_MS)
    assert not leader.journal.is_certain(world.schedule.now_ms)
    assert leader.journal.is_active
    world.service.come_back()
    world.run_until(lambda: not leader.journal.is_cut_off)
    leader.propose(ids(2))
    agree(world, 2)
    assert leader.journal.epoch == 1
    assert [member.journal.sessions_ended for member in world.members] == [0, 0]


# --- who was replaced ---------------------------------------------------------------------------


def test_a_controller_that_was_cut_off_is_replaced_and_can_write_nothing() -> None:
    world = World()
    for number in (1, 2, 3):
        world.add(number)
    old = leader_of(world)
    old.propose(ids(1))
    agree(world, 1)
    world.service.cuts[old.node_id] = None
    old.propose(ids(99))
    others = [member for member in world.members if member is not old]
    world.run_until(lambda: any(member.journal.is_active for member in others))
    (new,) = [member for member in others if member.journal.is_active]
    assert not old.journal.is_certain(world.schedule.now_ms)
    new.propose(ids(2))
    world.run(50.0)
    world.service.cuts.clear()
    agree(world, 2)
    assert not old.journal.is_active
    assert old.journal.sessions_ended == 1
    assert new.journal.epoch == 2


def test_a_session_that_is_over_ends_the_lease_and_the_office_at_once() -> None:
    world = World()
    world.add(1)
    world.add(2)
    leader = leader_of(world)
    assert leader.journal.lease_until_ms > world.schedule.now_ms
    world.service.expire(leader.link.session)
    world.run_until(lambda: leader.journal.sessions_ended == 1)
    assert leader.journal.lease_until_ms == 0.0
    assert not leader.journal.is_active
    assert any("the session with ZooKeeper is over" in text for text in leader.reports)
    world.run_until(lambda: leader.journal.may_join)
    again = leader_of(world)
    again.propose(ids(1))
    agree(world, 1)


def test_the_lease_is_over_before_zookeeper_gives_the_session_up() -> None:
    world = World()
    one = world.add(1)
    world.add(2)
    world.run_until(lambda: one.journal.lease_until_ms > 0)
    world.run(200.0)
    world.service.cuts[one.node_id] = None
    world.run_until(lambda: "1" not in world.names("/brokers/ids"))
    assert one.journal.lease_until_ms < world.schedule.now_ms


def test_a_lease_is_renewed_by_asking_even_if_nothing_happens() -> None:
    world = World()
    one = world.add(1)
    world.run_until(lambda: one.journal.lease_until_ms > 0)
    for _ in range(20):
        world.run(TIMEOUT_MS / 2)
        assert one.journal.lease_until_ms > world.schedule.now_ms


def test_without_controller_znode_the_office_is_won_anew() -> None:
    world = World()
    world.add(1)
    leader = leader_of(world)
    world.run(20.0)
    world.write(Delete(CONTROLLER))
    world.run_until(lambda: leader.journal.is_active and leader.journal.epoch == 2)
    leader.propose(ids(5))
    agree(world, 5)


# --- the node's own znode -----------------------------------------------------------------------


def test_a_node_back_from_a_crash_replaces_the_znode_of_its_former_life_at_once() -> None:
    world = World()
    one = world.add(1)
    world.run_until(lambda: one.journal.may_join)
    one.tell_epoch(5)
    world.run_until(lambda: json.loads(world.read("/brokers/ids/1") or b"{}")["epoch"] == 5)
    one.link.lose_host()
    world.members.remove(one)
    session = one.link.session
    again = world.add(1, last_epoch=5)
    world.run_until(lambda: again.journal.may_join, within_ms=TIMEOUT_MS / 2)
    assert again.link.session != session
    world.run_until(lambda: again.journal.is_active, within_ms=TIMEOUT_MS / 2)


def test_a_stranger_with_the_same_id_waits_for_the_end_of_the_session() -> None:
    world = World()
    one = world.add(1)
    world.run_until(lambda: one.journal.may_join)
    one.tell_epoch(5)
    stranger = world.add(1, last_epoch=4)
    world.run(10 * TIMEOUT_MS)
    assert one.journal.may_join
    assert not stranger.journal.may_join
    one.link.lose_host()
    world.run_until(lambda: stranger.journal.may_join)


# --- what people look at ------------------------------------------------------------------------


def test_a_decision_shows_in_the_znodes_of_its_partitions() -> None:
    world = World()
    world.add(1)
    leader = leader_of(world)
    leader.propose(*topic(2))
    world.run_until(lambda: world.read(state_path("orders", 1)) is not None)
    leader.propose(PartitionChangeRecord(topic_id=TOPIC_ID, partition=1, isr=[2], leader=2))
    world.run_until(lambda: _state(world, 1)["leader"] == 2)
    assert _state(world, 1)["isr"] == [2]
    assert _state(world, 1)["leader_epoch"] == 1
    assert _state(world, 0)["leader"] == 1
    leader.propose(RemoveTopicRecord(topic_id=TOPIC_ID, name="orders"))
    world.run_until(lambda: world.read(topic_path("orders")) is None)


def test_a_decision_is_not_stopped_by_hands_laid_on_a_partition_s_znode() -> None:
    world = World()
    world.add(1)
    leader = leader_of(world)
    leader.propose(*topic(2))
    world.run_until(lambda: "orders" in leader.image.topics)
    world.write(Delete(state_path("orders", 1)), Delete("/brokers/topics/orders/partitions/1"))
    leader.propose(PartitionChangeRecord(topic_id=TOPIC_ID, partition=1, isr=[2], leader=2))
    world.run_until(lambda: leader.image.topics["orders"].partitions[1].leader == 2)
    world.run_until(lambda: world.read(state_path("orders", 1)) is not None)
    assert _state(world, 1)["leader"] == 2


def test_a_stranger_s_topic_does_not_stop_the_creation_of_ours() -> None:
    world = World()
    world.add(1)
    leader = leader_of(world)
    world.write(Create(topic_path("orders"), b"{}"))
    leader.propose(*topic(1))
    world.run_until(lambda: "orders" in leader.image.topics)


def test_a_decision_with_more_partitions_than_a_write_has_room_for_shows_in_all() -> None:
    world = World()
    world.add(1)
    leader = leader_of(world)
    leader.propose(*topic(700))
    world.run_until(lambda: "orders" in leader.image.topics)
    world.run_until(lambda: world.read(state_path("orders", 699)) is not None)


def _state(world: World, partition: int) -> dict[str, object]:
    found: dict[str, object] = json.loads(world.read(state_path("orders", partition)) or b"{}")
    return found

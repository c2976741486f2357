"""Both ends of a follower's fetch session hold the same view, and it says what full fetches would.

A follower with real fetchers and logs copies partitions from a leader, on connections that are lost
with what is on them, or deliver it late; epochs change, logs part, the follower crashes, its leader
forgets the sessions. After every action

- where no request is under way, the leader has just what the follower has told it;
- the leader counts on nothing that the follower does not hold durably;
- a leader that notes only what has moved believes and answers the same, at the same time, as its
  twin, in which every fetch is noted for every partition of its session.

In the end all is replicated, and the fetches have nothing left to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from tests.support.followed_node import BROKER_EPOCH, FollowedNode, node_record
from tests.unit.log.logs import a_batch, open_log, settings

from tidelog.broker.effects import Effect
from tidelog.broker.events import ConnectionClosed, Event
from tidelog.broker.fetch_sessions import FetchSession
from tidelog.log.disk import DiskError
from tidelog.model.ids import ConnectionId, NodeId, PartitionKey
from tidelog.partition.fetcher import LANES, Fetcher, SendFetch
from tidelog.partition.fetcher_session import FetcherSession
from tidelog.partition.following import Following
from tidelog.partition.membership import Membership, ReplicationSettings
from tidelog.partition.progress import Progress
from tidelog.partition.replica import Replica
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.fetch import FetchRequest

SEEDS = 60
SEEDS_PER_TEST = 15
ACTIONS = 250
PARTITIONS = 4
LEADER, FOLLOWER = NodeId(1), NodeId(2)
VERSION = 17


class Thorough(FollowedNode):
    """Whatever a follower's fetch says of its partitions is noted for each of them."""

    def step(self, event: Event) -> list[Effect]:
        for session in self.node.state.follower_sessions.sessions():
            session.look_at_all()
        return super().step(event)


@dataclass
class Wire:
    """A request on its way, and its answer."""

    fetch: SendFetch
    connections: tuple[ConnectionId, ...]
    """By twin."""
    correlation: int | None = None
    is_given_up: bool = False


class Copy:
    """The follower: what survives a crash are its disks."""

    def __init__(self, seed: int) -> None:
        self.disks = [SimDisk(Random(seed + number)) for number in range(PARTITIONS)]
        self.broker_epoch = BROKER_EPOCH
        self.following: Following
        self.replicas: dict[PartitionKey, Replica] = {}

    def start(self, node: FollowedNode) -> None:
        own = ReplicationSettings(
            fetch_max_bytes=300,
            fetch_response_max_bytes=600,
            fetch_wait_max_ms=30,
            fetch_backoff_ms=8,
        )
        membership = Membership(FOLLOWER, own)
        membership.broker_epoch = self.broker_epoch
        self.following = Following(membership)
        self.replicas = {}
        for number, disk in enumerate(self.disks):
            state = node.replica(number).state
            log = open_log(disk)
            replica = Replica(state, log, settings(), membership, now_ms=node.now_ms)
            self.replicas[state.key] = replica
            self.following.place(replica)

    @property
    def fetcher(self) -> Fetcher | None:
        return self.following._fetchers.get(LEADER)

    def flush(self, replica: Replica) -> None:
        ticket = replica.flush_ticket()
        if ticket is not None:
            for target in ticket.targets:
                target.sync()
            replica.flushed(ticket)


class Story:
    """Two leaders that hear the same, and one follower of both."""

    def __init__(self, seed: int, path: Path) -> None:
        self.random = Random(seed)
        self.nodes = [kind(path, SimDisk(Random(seed))) for kind in (FollowedNode, Thorough)]
        self.epoch = 1
        self.leader = LEADER
        for node in self.nodes:
            node.lead(PARTITIONS)
        self.copy = Copy(seed)
        self.copy.start(self.nodes[0])
        self.wires: list[Wire] = []
        self.lines = [self._connect() for _ in range(LANES)]
        self.full = self.incremental = 0

    def _connect(self) -> tuple[ConnectionId, ...]:
        return tuple(node.connect() for node in self.nodes)

    # --- actions --------------------------------------------------------------------------------

    def play(self) -> None:
        actions = (
            *[self._arrive] * 14,
            *[self._hear] * 14,
            *[self._flush] * 8,
            *[self._append] * 6,
            *[self._pass_time] * 3,
            *[self._learn] * 3,
            self._lose,
            self._delete_records,
            self._move_leader,
            *[self._write_alone] * 2,
            *[self._lead_again] * 3,
        )
        seldom = (self._crash, self._forget_sessions, self._register_again)
        for _ in range(ACTIONS):
            self._tick(1)
            chosen = self.random.choice(seldom if self.random.random() < 0.02 else actions)
            chosen()
            self._settle()
            self.check()
        self.heal()

    def heal(self) -> None:
        self._lead_again()
        for _ in range(200):
            self._tick(5)
            self._learn(is_certain=True)
            for replica in self.copy.replicas.values():
                self.copy.flush(replica)
            self._arrive()
            self._hear()
            self._settle()
            self.check()
        self._tick(600)
        for _ in range(8):
            self._settle()
            self._arrive()
            self._hear()
        for number, replica in enumerate(self.copy.replicas.values()):
            leader = self.nodes[0].leader(number)
            assert replica.log.log_end_offset == leader.log.log_end_offset
            assert replica.high_watermark == leader.high_watermark == leader.log.log_end_offset
            assert leader.progress[FOLLOWER].caught_up_ms >= self.nodes[0].now_ms - 600
        last = [wire.fetch.request for wire in self.wires[-1:]]
        assert all(not request.topics and request.session_epoch > 0 for request in last)

    def _tick(self, milliseconds: float) -> None:
        for node in self.nodes:
            node.advance(milliseconds)

    def _pass_time(self) -> None:
        self._tick(self.random.choice((5, 40, 600)))

    def _settle(self) -> None:
        """Whatever the follower has to ask."""
        following, now_ms = self.copy.following, self.nodes[0].now_ms
        following.tick(now_ms)
        for fetch in following.next_fetches(now_ms):
            self.full += fetch.request.session_epoch == 0
            self.incremental += fetch.request.session_epoch > 0
            self.wires.append(Wire(fetch, self.lines[fetch.lane]))

    def _arrive(self) -> None:
        """A request, behind those before it on its connection."""
        sent = [wire for wire in self.wires if wire.correlation is None]
        first = {wire.connections: wire for wire in reversed(sent)}
        if first:
            wire = self.random.choice(list(first.values()))
            for node, connection in zip(self.nodes, wire.connections, strict=True):
                request: FetchRequest = wire.fetch.request
                wire.correlation = node.submit(request, version=VERSION, connection=connection)

    def _hear(self) -> None:
        """An answer."""
        answers = self.nodes[0].responses
        ready = [
            wire for wire in self.wires if not wire.is_given_up and wire.correlation in answers
        ]
        if ready:
            wire = self.random.choice(ready)
            self.wires.remove(wire)
            response = answers[wire.correlation or 0]
            self.copy.following.answered(self.nodes[0].now, wire.fetch, response)

    def _lose(self) -> None:
        """A connection: what is on its way comes late, or never."""
        lane = self.random.randrange(LANES)
        old, self.lines[lane] = self.lines[lane], self._connect()
        for wire in [wire for wire in self.wires if wire.connections == old]:
            if not wire.is_given_up:
                self.copy.following.failed(self.nodes[0].now_ms, wire.fetch)
            wire.is_given_up = True
            if wire.correlation is not None or self.random.random() < 0.5:
                self.wires.remove(wire)
        if not any(wire.connections == old for wire in self.wires) and self.random.random() < 0.5:
            for node, connection in zip(self.nodes, old, strict=True):
                node.step(ConnectionClosed(connection))

    def _flush(self) -> None:
        for replica in self.copy.replicas.values():
            if self.random.random() < 0.7:
                self.copy.flush(replica)

    def _append(self) -> None:
        if self.leader == LEADER:
            number = self.random.randrange(PARTITIONS)
            for node in self.nodes:
                node.append(number)

    def _delete_records(self) -> None:
        number = self.random.randrange(PARTITIONS)
        row = DeleteRecordsPartition(partition_index=number, offset=-1)
        topic = DeleteRecordsTopic(name="orders", partitions=[row])
        for node in self.nodes:
            node.submit(DeleteRecordsRequest(topics=[topic], timeout_ms=1000))

    def _move_leader(self) -> None:
        self.epoch += 1
        self.leader = FOLLOWER if self.leader == LEADER and self.random.random() < 0.6 else LEADER
        for node in self.nodes:
            node.lead(PARTITIONS, leader=self.leader, epoch=self.epoch)

    def _lead_again(self) -> None:
        if self.leader != LEADER:
            self._move_leader()

    def _learn(self, *, is_certain: bool = False) -> None:
        """The follower hears of roles, some time after its leader."""
        for number, replica in enumerate(self.copy.replicas.values()):
            if is_certain or self.random.random() < 0.7:
                replica.follow(self.nodes[0].replica(number).state, self.nodes[0].now_ms)
                self.copy.following.place(replica)

    def _write_alone(self) -> None:
        """What it writes as a leader nobody else has: its log parts from that of the next."""
        for replica in self.copy.replicas.values():
            if replica.leader is not None and self.random.random() < 0.5:
                replica.append(a_batch(), 1000)

    def _crash(self) -> None:
        for disk in self.copy.disks:
            disk.lose_power()
        for wire in self.wires:
            wire.is_given_up = True
        self.lines = [self._connect() for _ in range(LANES)]
        self._register_again()
        self.copy.start(self.nodes[0])

    def _register_again(self) -> None:
        self.copy.broker_epoch += 1
        for node in self.nodes:
            node.commit(node_record(FOLLOWER, epoch=self.copy.broker_epoch))
        self.copy.following._membership.broker_epoch = self.copy.broker_epoch

    def _forget_sessions(self) -> None:
        for node in self.nodes:
            sessions = node.node.state.follower_sessions
            for session in list(sessions.sessions()):
                sessions._drop(session.session_id)
            sessions.dropped.clear()

    # --- what must be true ----------------------------------------------------------------------

    def check(self) -> None:
        self.copy.following.validate(self.copy.replicas)
        one, other = self.nodes
        assert one.responses == other.responses
        for number, replica in enumerate(self.copy.replicas.values()):
            beliefs = [self._belief(node, number) for node in self.nodes]
            assert beliefs[0] == beliefs[1], f"partition {number}"
            self._check_durable(number, replica)
        fetcher = self.copy.fetcher
        for lane in fetcher._lanes if fetcher is not None else ():
            if lane.asked is None and not lane.session.is_full:
                self._check_view(lane.session)

    def _belief(self, node: FollowedNode, number: int) -> object:
        leader = node.replica(number).leader
        if leader is None:
            return None
        known: Progress = leader.progress[FOLLOWER]
        return (
            leader.high_watermark,
            known.fetch_offset,
            known.broker_epoch,
            known.log_start_offset,
            known.fetched_ms,
            known.caught_up_ms,
            known.is_close,
        )

    def _check_durable(self, number: int, replica: Replica) -> None:
        leader = self.nodes[0].replica(number).leader
        if leader is not None and replica.leader_epoch == leader.leader_epoch:
            known = leader.progress[FOLLOWER].fetch_offset
            assert known <= replica.log.flushed_offset, f"partition {number}: {known} is not there"

    def _check_view(self, mine: FetcherSession) -> None:
        sessions = self.nodes[0].node.state.follower_sessions
        found = [one for one in sessions.sessions() if one.session_id == mine._session_id]
        for theirs in found:
            assert isinstance(theirs, FetchSession)
            if theirs.epoch != mine._epoch:
                continue  # the next request will be told so
            assert set(theirs.items) == {*mine.told, *mine._forgotten}
            for key, told in mine.told.items():
                item, fetch = theirs.items[key], told.fetch
                assert (item.fetch_offset, item.current_leader_epoch) == (
                    fetch.fetch_offset,
                    fetch.current_leader_epoch,
                )
                assert item.last_fetched_epoch == fetch.last_fetched_epoch
                assert item.log_start_offset == fetch.log_start_offset
                assert item.max_bytes == fetch.partition_max_bytes


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_both_ends_of_a_session_hold_the_same_view(first: int, tmp_path: Path) -> None:
    incremental = full = 0
    for seed in range(first, first + SEEDS_PER_TEST):
        story = Story(seed, tmp_path)
        try:
            story.play()
        except (AssertionError, DiskError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        incremental, full = incremental + story.incremental, full + story.full
    assert incremental > 3 * full > 100, (incremental, full)

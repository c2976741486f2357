"""A cluster of nodes that hold records, around the real controller: what it decides must never
elect a leader that lacks a committed record.

Logs are lengths. The leader commits when every ISR member has what it has and enough are in sync;
followers fetch; nodes stop, crash (and may lose the end of their logs), and come back. Leaders act
on the newest metadata here: that acting on older metadata is harmless is the simulator's to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from tests.support.controller_driver import ControllerDriver

from tidelog.controller.configs import ConfigChange, Operation
from tidelog.controller.elections import Election
from tidelog.controller.isr_changes import IsrChange, IsrMember
from tidelog.controller.log_ends import LogEnd, LogEnds
from tidelog.controller.reassignments import Reassignment, plan_drain, plan_spread
from tidelog.controller.topics import TopicSpec
from tidelog.metadata.image import Image, PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    NO_TOPIC_ID,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionKey,
)
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard


class RecordLost(AssertionError):
    """A leader lacks what was committed."""


@dataclass
class Life:
    """One node: its process, and what its directory vouches for."""

    is_running: bool = False
    epoch: int = NO_BROKER_EPOCH
    vouched_epoch: int = NO_BROKER_EPOCH
    has_crashed: bool = False
    logs: dict[PartitionKey, int] = field(default_factory=dict)


@dataclass
class Fetched:
    """The last a leader heard of a follower."""

    leader_epoch: int
    broker_epoch: int
    end: int


class ClusterModel:
    """Random commands; `run` raises where something is wrong."""

    def __init__(self, seed: int, *, safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS) -> None:
        self.random = Random(seed)
        interval_ms = self.random.choice([None, 5_000.0])
        self.driver = ControllerDriver(
            safeguards=safeguards, rebalance_interval_ms=interval_ms, seed=seed
        )
        self.lives = {NodeId(n): Life() for n in range(1, self.random.choice([3, 3, 4, 5]) + 1)}
        self.topics = self.random.choice([1, 1, 2, 4])
        self.committed: dict[PartitionKey, int] = {}
        self.fetched: dict[tuple[PartitionKey, NodeId], Fetched] = {}
        self.leaders: dict[PartitionKey, int] = {}
        self.uncleanly: set[PartitionKey] = set()
        self.exhausted: set[PartitionKey] = set()
        """Everybody who had all of it has crashed, and need not have flushed it."""

    @property
    def image(self) -> Image:
        return self.driver.image

    def run(self, steps: int) -> None:
        acts = [
            *(self.write,) * 6,
            *(self.fetch,) * 6,
            *(self.expand,) * 4,
            *(self.shrink,) * 2,
            *(self.time_passes,) * 4,
            *(self.start,) * 3,
            self.crash,
            self.bounce,
            self.stop,
            self.reassign,
            self.create,
            self.configure,
            self.elect,
            self.fail_over,
            self.rarely,
        ]
        for _ in range(steps):
            self.random.choice(acts)()
            self.look()
        self.heal()

    # --- what always holds --------------------------------------------------------------------

    def look(self) -> None:
        self.image.validate()
        for state in self.image.partitions():
            is_new = self.leaders.get(state.key) != state.leader_epoch
            # A node that has crashed since may be elected before that is known: it never acts.
            if is_new and state.leader != NO_LEADER and self.serves(state.leader):
                self.leaders[state.key] = state.leader_epoch
                self.new_leader(state)
            for node_id in state.isr:
                assert self.image.is_usable(node_id)

    def new_leader(self, state: PartitionState) -> None:
        end = self.lives[state.leader].logs.get(state.key, 0)
        committed = self.committed.get(state.key, 0)
        topic = self.image.topics[state.name.topic]
        may_lose = len(state.original_replicas) == 1 or self.image.allows_unclean_election(topic)
        if end < committed:
            if not (may_lose or state.key in self.uncleanly | self.exhausted):
                raise RecordLost(f"{state.name}: {state.leader} has {end} of {committed}")
            self.committed[state.key] = end
        self.uncleanly.discard(state.key)
        self.exhausted.discard(state.key)
        for node_id in state.isr:
            logs = self.lives[node_id].logs
            logs[state.key] = min(logs.get(state.key, 0), end)

    # --- partitions ---------------------------------------------------------------------------

    def serves(self, node_id: NodeId) -> bool:
        """Whether the process that runs is the one that is registered."""
        life, node = self.lives[node_id], self.image.nodes.get(node_id)
        return life.is_running and node is not None and node.epoch == life.epoch

    def led(self) -> PartitionState | None:
        found = [
            state
            for state in self.image.partitions()
            if state.leader != NO_LEADER and self.serves(state.leader)
        ]
        return self.random.choice(found) if found else None

    def write(self) -> None:
        """The leader appends; it commits once the whole ISR has it."""
        state = self.led()
        if state is None:
            return
        logs = self.lives[state.leader].logs
        logs[state.key] = end = logs.get(state.key, 0) + self.random.choice([0, 1, 3])
        if not all(self.may_follow(node_id, state.key) for node_id in state.isr):
            return
        if len(state.isr) < self.image.min_isr(state) or self.random.random() < 0.2:
            return
        for node_id in state.isr:
            self.lives[node_id].logs[state.key] = end
        self.committed[state.key] = end

    def may_follow(self, node_id: NodeId, key: PartitionKey) -> bool:
        """Whether the next records reach it at once: one that lacks older ones fetches first."""
        end = self.lives[node_id].logs.get(key, 0)
        return self.serves(node_id) and end >= self.committed.get(key, 0)

    def fetch(self) -> None:
        state = self.led()
        followers = [n for n in state.replicas if n != state.leader] if state else []
        if state is None or not followers:
            return
        node_id = self.random.choice(followers)
        if self.serves(node_id):
            end = self.lives[state.leader].logs.get(state.key, 0)
            self.lives[node_id].logs[state.key] = end
            epoch = self.lives[node_id].epoch
            self.fetched[state.key, node_id] = Fetched(state.leader_epoch, epoch, end)

    def expand(self) -> None:
        """By what the leader heard, which may be long ago."""
        state = self.led()
        if state is None:
            return
        members = {state.leader: self.lives[state.leader].epoch}
        for node_id in state.replicas:
            heard = self.fetched.get((state.key, node_id))
            has_all = (
                heard is not None
                and heard.leader_epoch == state.leader_epoch
                and heard.end >= self.committed.get(state.key, 0)
            )
            if heard is not None and has_all:
                members[node_id] = heard.broker_epoch
            elif node_id in state.isr:
                members.setdefault(node_id, NO_BROKER_EPOCH)
        self.alter(state, members)

    def shrink(self) -> None:
        state = self.led()
        if state is not None and len(state.isr) > 1:
            kept = [n for n in state.isr if n == state.leader or self.random.random() < 0.5]
            self.alter(state, dict.fromkeys(kept, NO_BROKER_EPOCH))

    def alter(self, state: PartitionState, members: dict[NodeId, int]) -> None:
        change = IsrChange(
            state.key,
            state.leader_epoch,
            state.partition_epoch,
            tuple(IsrMember(node_id, epoch) for node_id, epoch in members.items()),
        )
        epoch = self.lives[state.leader].epoch
        self.driver.commit(self.driver.controller.alter_partitions(state.leader, epoch, [change]))

    # --- nodes --------------------------------------------------------------------------------

    def time_passes(self) -> None:
        for _ in range(self.random.choice([1, 1, 3, 8])):
            self.driver.now_ms += 500
            for node_id in self.lives:
                if self.serves(node_id) and self.random.random() < 0.9:
                    lag = self.random.choice([0, 0, 0, 1, 4])
                    self.driver.beat(node_id, seen=self.driver.offset - lag)
            self.driver.commit(self.driver.controller.tick(self.driver.now_ms))
            self.elect_waiting()

    def start(self) -> None:
        down = [node_id for node_id in self.lives if not self.serves(node_id)]
        if not down:
            return
        node_id = self.random.choice(down)
        life = self.lives[node_id]
        life.is_running = True
        before = self.image
        known = before.nodes.get(node_id)
        is_vouched = known is not None and life.vouched_epoch == known.epoch
        outcome = self.driver.register(
            node_id, previous_epoch=life.vouched_epoch, has_crashed=life.has_crashed
        )
        if outcome.error is not ErrorCode.NONE:
            assert outcome.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
            return
        if Safeguard.CLEAN_MARK in self.driver.safeguards:
            if not is_vouched:
                self.look_for(node_id, self.image.partitions())
            elif life.has_crashed:
                self.look_for(node_id, self.not_exhausted(node_id, before))
        life.epoch, life.vouched_epoch, life.has_crashed = outcome.epoch, NO_BROKER_EPOCH, False

    def look_for(self, node_id: NodeId, states: Iterable[PartitionState]) -> None:
        """I15: who came back from a crash is in no ISR and no ELR, but for its only copies."""
        for state in states:
            if node_id in (*state.isr, *state.elr):
                assert state.original_replicas == (node_id,)

    def not_exhausted(self, node_id: NodeId, before: Image) -> Iterator[PartitionState]:
        """Where it may have lost what it had not flushed, and others have it."""
        for state in self.image.partitions():
            if self.is_flushed_first(state.key):
                continue
            was = before.partition(state.key)
            assert was is not None
            if {*was.isr, *was.elr} == {node_id}:
                self.exhausted.add(state.key)
            else:
                yield state

    def is_flushed_first(self, key: PartitionKey) -> bool:
        topic = self.image.topic_by_id(key.topic_id)
        return topic is not None and self.image.topic_value(topic, "flush.policy") == "ack"

    def crash(self) -> None:
        """The end of each log may be gone: with the directory, or where it was not flushed."""
        node_id = self.random.choice(list(self.lives))
        life = self.lives[node_id]
        if not life.is_running:
            return
        is_directory_lost = self.random.random() < 0.5
        if is_directory_lost:
            life.vouched_epoch = NO_BROKER_EPOCH
        elif life.epoch != NO_BROKER_EPOCH:
            life.vouched_epoch = life.epoch
        life.is_running, life.epoch, life.has_crashed = False, NO_BROKER_EPOCH, True
        if self.random.random() < 0.5:
            for key, end in life.logs.items():
                if is_directory_lost or not self.is_flushed_first(key):
                    life.logs[key] = self.random.randint(0, end)

    def bounce(self) -> None:
        """A crash, and back as soon as the session is over."""
        self.crash()
        self.driver.now_ms += 2_900
        for node_id in self.lives:
            if self.serves(node_id):
                self.driver.beat(node_id)
        self.time_passes()
        self.start()
        self.time_passes()

    def stop(self) -> None:
        """Ask to go, and go when allowed, or after too long a wait: all is on disk either way."""
        node_id = self.random.choice(list(self.lives))
        life = self.lives[node_id]
        if not self.serves(node_id):
            return
        for _ in range(self.random.choice([1, 4])):
            if self.driver.beat(node_id, wants_shutdown=True).should_shut_down:
                break
            self.time_passes()
        if self.serves(node_id):
            life.vouched_epoch, life.has_crashed = life.epoch, False
            life.is_running, life.epoch = False, NO_BROKER_EPOCH

    def rarely(self) -> None:
        """A node that is down is given up."""
        down = [n for n in self.image.nodes if not self.lives[n].is_running]
        if down and self.random.random() < 0.3:
            decision = self.driver.controller.unregister(self.random.choice(down))
            self.driver.commit(decision)

    def fail_over(self) -> None:
        self.driver.fail_over()

    # --- people -------------------------------------------------------------------------------

    def create(self) -> None:
        if len(self.image.topics) >= self.topics:
            if self.random.random() < 0.2:
                name = self.random.choice(list(self.image.topics))
                self.driver.commit(self.driver.controller.delete_topics([(name, NO_TOPIC_ID)]))
            return
        spec = TopicSpec(
            f"t{self.random.randrange(1000)}",
            partitions=self.random.choice([1, 2, 3]),
            replication_factor=self.random.choice([1, 2, 3, 3, 3]),
            configs={
                "min.insync.replicas": self.random.choice(["1", "2", "2", "3"]),
                "flush.policy": self.random.choice(["ack", "os"]),
                "unclean.leader.election.enable": self.random.choice(["false"] * 5 + ["true"]),
            },
        )
        self.driver.commit(self.driver.controller.create_topics([spec]))

    def configure(self) -> None:
        if self.image.topics:
            name = self.random.choice(list(self.image.topics))
            value = self.random.choice(["1", "2", "3"])
            change = ConfigChange("min.insync.replicas", Operation.SET, value)
            self.driver.commit(self.driver.controller.alter_topic(name, [change], defaults={}))

    def reassign(self) -> None:
        states = list(self.image.partitions())
        if not states:
            return
        state = self.random.choice(states)
        moves: list[Reassignment] = [Reassignment(state.name, None)]
        kind = self.random.randrange(6)
        if kind < 3:
            nodes = list(self.image.nodes)
            target = self.random.sample(nodes, min(len(nodes), self.random.choice([1, 2, 3])))
            moves = [Reassignment(state.name, tuple(target))]
        elif kind == 3:
            moves, _ = plan_drain(self.image, self.random.choice(list(self.lives)))
        elif kind == 4:
            moves = plan_spread(self.image)
        self.driver.commit(self.driver.controller.reassign(moves))

    def elect(self) -> None:
        if self.random.random() < 0.8:
            election = Election.PREFERRED
        else:
            election = Election.UNCLEAN
        states = [s for s in self.image.partitions() if s.leader == NO_LEADER]
        if election is Election.UNCLEAN:
            self.uncleanly.update(state.key for state in states)
        log_ends = self.log_ends(states)
        self.driver.commit(self.driver.controller.elect_leaders(None, election, log_ends))
        self.check_fullest(log_ends)
        self.look()
        self.uncleanly.clear()

    def elect_waiting(self) -> None:
        """The controller has asked for what it needs to know."""
        log_ends = self.log_ends(self.driver.controller.waiting_for_log_ends())
        self.driver.commit(self.driver.controller.elect_waiting(log_ends))
        self.check_fullest(log_ends)

    def log_ends(self, states: list[PartitionState]) -> dict[PartitionKey, LogEnds]:
        """What those say that run and are registered."""
        return {
            state.key: LogEnds(
                state.leader_epoch,
                {
                    node_id: LogEnd(
                        self.image.nodes[node_id].epoch,
                        LeaderEpoch(0),
                        Offset(self.lives[node_id].logs.get(state.key, 0)),
                    )
                    for node_id in state.replicas
                    if self.serves(node_id)
                },
            )
            for state in states
        }

    def check_fullest(self, log_ends: dict[PartitionKey, LogEnds]) -> None:
        """Whoever was elected has all that the fullest had of those that could be."""
        for key, told in log_ends.items():
            state = self.image.partition(key)
            if state is None or state.leader not in told.by_node:
                continue
            usable = {n: end for n, end in told.by_node.items() if self.image.is_usable(n)}
            fullest = max(end.log_end_offset for end in usable.values())
            has = usable[state.leader].log_end_offset
            assert has == fullest, f"{state.name}: {state.leader} has {has} of {fullest}"

    # --- the end ------------------------------------------------------------------------------

    def heal(self) -> None:
        """Everybody comes back, and after a while everything is as it should be."""
        for _ in range(40):
            self.start()
            self.driver.now_ms += 500
            for node_id in self.lives:
                if self.serves(node_id):
                    self.driver.beat(node_id)
            self.driver.commit(self.driver.controller.tick(self.driver.now_ms))
            self.elect_waiting()
            self.look()
        assert all(self.image.is_usable(node_id) for node_id in self.lives)
        for _ in range(4):
            for state in list(self.image.partitions()):
                self.catch_up(state.key)
                self.look()
        for state in self.image.partitions():
            if state.leader == NO_LEADER:
                assert not state.isr, f"{state.name} could be led"
                assert not state.elr, f"{state.name} could be led"
                assert state.last_known_elr, f"nobody knows who led {state.name}"
            else:
                assert set(state.isr) == set(state.replicas)
                assert not state.is_reassigning
        self.driver.fail_over()

    def catch_up(self, key: PartitionKey) -> None:
        """Every follower fetches, and the leader takes them in; then it lets go who is to go."""
        state = self.image.partition(key)
        if state is None or state.leader == NO_LEADER:
            return
        end = self.lives[state.leader].logs.get(key, 0)
        for node_id in state.replicas:
            self.lives[node_id].logs[key] = end
        self.alter(state, {node_id: self.lives[node_id].epoch for node_id in state.replicas})
        state = self.image.partition(key)
        if state is not None and state.is_reassigning and state.leader != NO_LEADER:
            kept = state.target_replicas
            self.alter(state, {node_id: self.lives[node_id].epoch for node_id in kept})

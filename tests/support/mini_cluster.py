"""Three replicas of one partition on simulated disks, a network that delays and loses, a
controller.

The replicas are the real machines (`tidelog.partition`); what the node and its APIs do around them
is done here by hand, one action at a time, drawn from a seed. Everything is checked after every
action by `ReplicationChecks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.replication_checks import ReplicationChecks
from tests.support.toy_controller import KEY, NAME, TOPIC_ID, ToyController

from tidelog.log.disk import FileSpan
from tidelog.log.log import FlushTicket, Log
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import TopicSettings, topic_settings
from tidelog.partition.divergence import EpochEnd
from tidelog.partition.fetcher import SendFetch
from tidelog.partition.following import Following
from tidelog.partition.isr import ProposeIsr
from tidelog.partition.leader import Leader
from tidelog.partition.membership import Membership, ReplicationSettings
from tidelog.partition.progress import FollowerFetch
from tidelog.partition.replica import Replica
from tidelog.sim.disk import FlushTicket as DiskFlush
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.records import Record, encode_batch

NODES = (NodeId(1), NodeId(2), NodeId(3))
DIRECTORY = "orders-0"
SETTINGS = ReplicationSettings(
    lag_time_max_ms=120,
    fetch_max_bytes=400,
    fetch_response_max_bytes=400,
    fetch_wait_max_ms=5,
    fetch_backoff_ms=8,
    request_timeout_ms=40,
)


@dataclass
class ToyNode:
    """One node: what survives a crash is `disk`, and what the controller knows."""

    node_id: NodeId
    disk: SimDisk
    membership: Membership
    following: Following
    seen: int = 0
    """How much of the controller's history it has learned."""
    replica: Replica | None = None
    flush: tuple[Log, FlushTicket, DiskFlush] | None = None
    is_up: bool = True

    @property
    def leader(self) -> Leader | None:
        return self.replica.leader if self.is_up and self.replica is not None else None


@dataclass
class Message:
    """On its way. `deliver` is what happens when it arrives, `lost` when it never does."""

    to: NodeId | None
    text: str
    deliver: Callable[[], None]
    lost: Callable[[], None] = lambda: None


@dataclass
class Waiting:
    """A produce request with acks=all."""

    leader: Leader
    last_offset: Offset
    value: int
    by_all: bool = True


@dataclass
class MiniCluster:
    """`play` runs a seed. `trace` is what happened, for a failure's report."""

    seed: int
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS
    min_isr: int = 0
    """Drawn, if it is not given."""
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.min_isr = self.min_isr or self.random.choice((1, 2, 2))
        self.config: TopicSettings = topic_settings(
            {"min.insync.replicas": self.min_isr, "segment.bytes": 1024}
        )
        self.now_ms = 1000.0
        self.controller = ToyController(NODES, min_isr=self.min_isr)
        self.network: list[Message] = []
        self.waiting: list[Waiting] = []
        self.deleting: list[tuple[Leader, Offset]] = []
        self.next_value = 0
        self.loss = self.random.choice((0.0, 0.05, 0.2))
        self.nodes: dict[NodeId, ToyNode] = {}
        for node_id in NODES:
            membership = Membership(node_id, SETTINGS)
            membership.broker_epoch = 1
            membership.nodes = self.controller.nodes
            disk = SimDisk(Random(self.random.random()))
            self.nodes[node_id] = ToyNode(node_id, disk, membership, Following(membership))
        self.checks = ReplicationChecks(self)
        for node in self.nodes.values():
            self._open(node, crashed_in=-1)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, int(self.now_ms))

    # --- playing ------------------------------------------------------------------------------

    def play(self, actions: int = 260) -> None:
        """The work goes on always; how often what goes wrong is each seed's own."""
        draw = self.random.choice
        choices: list[tuple[int, Callable[[], None]]] = [
            (40, self.deliver),
            (draw((3, 8, 16)), self.produce),
            (draw((8, 20)), self.finish_flush),
            (draw((4, 12)), self.learn),
            (draw((2, 8)), self.pass_time),
            (draw((0, 1, 4)), self.crash),
            (draw((2, 6)), self.come_back),
            (draw((0, 2, 4)), self.fence_somebody),
            (draw((2, 6)), self.unfence_somebody),
            (draw((0, 1, 4)), self.move_leader),
            (draw((0, 2, 6)), self.reassign),
            (draw((0, 1, 4)), self.delete_records),
        ]
        weights, acts = [weight for weight, _ in choices], [act for _, act in choices]
        for _ in range(actions):
            self.now_ms += 1
            self.random.choices(acts, weights)[0]()
            self._settle()
            self.checks.check()
        self.heal()

    def heal(self) -> None:
        """No more faults: everything must come right by itself."""
        self.loss = 0.0
        self.note("heal")
        for node_id in NODES:
            self.controller.add(node_id)
        for _ in range(400):
            self.now_ms += 5
            for node in self.nodes.values():
                if not node.is_up:
                    self._restart(node)
                if node.node_id in self.controller.fenced:
                    self.controller.unfence(node.node_id)
                self._learn(node, len(self.controller.history))
                self._finish_flush(node)
            while self.network:
                self._arrive(self.network.pop(0))
            self._settle()
            self.checks.check()
            if self.checks.is_whole():
                return
        self.checks.fail(f"not whole after healing: {self.describe()}")

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now_ms:.0f} {text}")

    def describe(self) -> str:
        state = self.controller.state
        lines = [
            f"leader {state.leader} epoch {state.leader_epoch}.{state.partition_epoch} isr "
            f"{state.isr} elr {state.elr} fenced {sorted(self.controller.fenced)}"
        ]
        for node in self.nodes.values():
            replica = node.replica
            if replica is not None and node.is_up:
                log = replica.log
                role = "leads" if replica.leader else "follows" if replica.follower else "rests"
                lines.append(
                    f"  {node.node_id} {role} {replica.leader_epoch} [{log.log_start_offset}, "
                    f"{log.log_end_offset}) flushed {log.flushed_offset} hw "
                    f"{replica.high_watermark} epochs {log.epochs.entries()}"
                )
        return "\n".join(lines)

    # --- actions ------------------------------------------------------------------------------

    def deliver(self) -> None:
        if not self.network:
            return
        if self.random.random() < self.loss:
            message = self.network.pop(self.random.randrange(len(self.network)))
            self.note(f"lost: {message.text}")
            message.lost()
            return
        self._arrive(self.network.pop(min(self.random.randrange(len(self.network)), 6)))

    def _arrive(self, message: Message) -> None:
        if message.to is None or self.nodes[message.to].is_up:
            self.note(message.text)
            message.deliver()
        else:
            message.lost()

    def produce(self) -> None:
        leaders = [node.leader for node in self.nodes.values() if node.leader is not None]
        if not leaders:
            return
        leader = self.random.choice(leaders)
        if leader.has_enough_replicas:
            self.produce_to(leader)

    def produce_to(self, leader: Leader) -> None:
        self.next_value += 1
        batch = encode_batch([Record(0, int(self.now_ms), value=b"%d" % self.next_value)])
        appended = leader.append(memoryview(batch), int(self.now_ms))
        if appended.error is ErrorCode.NONE:
            self.note(
                f"append {self.next_value} at {appended.base_offset} of {leader.leader_epoch}"
            )
            self.waiting.append(Waiting(leader, appended.last_offset, self.next_value))

    def finish_flush(self) -> None:
        self._finish_flush(self.random.choice(list(self.nodes.values())))

    def _finish_flush(self, node: ToyNode) -> None:
        if not node.is_up or node.replica is None:
            return
        if node.flush is None:
            ticket = node.replica.flush_ticket()
            if ticket is not None:
                node.flush = (node.replica.log, ticket, node.disk.begin_flush(ticket.targets))
            return
        log, ticket, begun = node.flush
        node.flush = None
        node.disk.finish_flush(begun)
        if node.replica.log is log:
            node.replica.flushed(ticket)
            if self.random.random() < 0.3:
                log.checkpoint()

    def learn(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        self._learn(node, node.seen + self.random.randint(1, 3))

    def _learn(self, node: ToyNode, up_to: int) -> None:
        """Committed metadata reaches a node, in order."""
        node.membership.nodes = dict(self.controller.nodes)
        while node.is_up and node.seen < min(up_to, len(self.controller.history)):
            state = self.controller.history[node.seen]
            node.seen += 1
            if node.node_id not in state.replicas:
                self._let_go(node)
            elif node.replica is None:
                self._open(node, crashed_in=-1)
            elif node.replica.follow(state, self.now_ms):
                self.note(f"{node.node_id} learns epoch {state.leader_epoch} of {state.leader}")
            if node.replica is not None:
                node.following.place(node.replica)
            self._settle()
            self.checks.check()

    def _let_go(self, node: ToyNode) -> None:
        if node.replica is not None:
            self.note(f"{node.node_id} deletes its replica")
            self.checks.forget(node.node_id)
            node.replica.removed()
            node.following.place(node.replica)
            node.replica = node.flush = None
            node.disk.delete(DIRECTORY)
            node.disk.directory("").sync()

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((5, 20, 60))

    def crash(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        if node.is_up:
            self.crash_node(node, is_power_lost=self.random.random() < 0.8)

    def crash_node(self, node: ToyNode, *, is_power_lost: bool) -> None:
        self.note(f"{node.node_id} {'loses power' if is_power_lost else 'is killed'}")
        self.checks.crashed(node.node_id)
        node.is_up = False
        node.replica = node.flush = None
        if is_power_lost:
            node.disk.lose_power()
        else:
            node.disk.lose_process()

    def come_back(self) -> None:
        down = [node for node in self.nodes.values() if not node.is_up]
        if not down:
            return
        node = self.random.choice(down)
        if self.random.random() < 0.4:
            self.controller.fence(node.node_id)
        else:
            self._restart(node)

    def _restart(self, node: ToyNode) -> None:
        """It registers, and starts with the metadata as of then."""
        node.membership.broker_epoch = self.controller.register(node.node_id)
        node.membership.nodes = dict(self.controller.nodes)
        node.following = Following(node.membership)
        node.is_up = True
        node.seen = len(self.controller.history)
        self.note(f"{node.node_id} is back")
        if node.node_id in self.controller.state.replicas:
            self._open(node, crashed_in=self.controller.state.leader_epoch)
        else:
            node.disk.delete(DIRECTORY)
            node.disk.directory("").sync()
            self.checks.forget(node.node_id)

    def _open(self, node: ToyNode, *, crashed_in: int) -> None:
        log = Log.open(node.disk, DIRECTORY, self.config, clean=False, safeguards=self.safeguards)
        node.seen = max(node.seen, 1)
        node.replica = Replica(
            self.controller.history[node.seen - 1],
            log,
            self.config,
            node.membership,
            now_ms=self.now_ms,
            crashed_in=LeaderEpoch(crashed_in),
            safeguards=self.safeguards,
        )
        node.following.place(node.replica)

    def fence_somebody(self) -> None:
        node = self.random.choice(NODES)
        self.note(f"{node} is fenced")
        self.controller.fence(node)

    def unfence_somebody(self) -> None:
        for node in sorted(self.controller.fenced):
            if self.nodes[node].is_up and self.random.random() < 0.7:
                self.note(f"{node} is let in")
                self.controller.unfence(node)
                return

    def move_leader(self) -> None:
        self.controller.elect(self.random.choice(NODES))

    def reassign(self) -> None:
        state = self.controller.state
        away = [node for node in NODES if node not in state.replicas]
        if away:
            self.controller.add(away[0])
            return
        node = self.random.choice(NODES)
        self.controller.remove(node)
        if node not in self.controller.state.replicas:
            self.note(f"{node} is to keep the partition no longer")
            if self.random.random() < 0.7:
                self.controller.add(node)

    def delete_records(self) -> None:
        leaders = [node.leader for node in self.nodes.values() if node.leader is not None]
        if not leaders:
            return
        leader = self.random.choice(leaders)
        start, end = leader.log.log_start_offset, leader.high_watermark
        if leader.is_proven and end > start:
            offset = Offset(self.random.randint(start + 1, end))
            self.note(f"delete below {offset} of {leader.leader_epoch}")
            leader.log.advance_start(offset)
            self.deleting.append((leader, offset))

    # --- what nodes do by themselves ----------------------------------------------------------

    def _settle(self) -> None:
        """The end of a step: answers leave, and whatever there is to send."""
        for node in self.nodes.values():
            if not node.is_up or node.replica is None:
                continue
            node.following.tick(self.now_ms)
            for fetch in node.following.next_fetches(self.now_ms):
                self._send_fetch(node, fetch)
            leader = node.leader
            proposal = None if leader is None else leader.propose(self.now_ms)
            if leader is not None and proposal is not None:
                self.checks.proposed(leader, proposal)
                self._send_proposal(node, leader, proposal)
        self._answer_producers()

    def _answer_producers(self) -> None:
        left = []
        for waiting in self.waiting:
            leader = waiting.leader
            if leader.is_acknowledged(waiting.last_offset, by_all=waiting.by_all):
                self.checks.acknowledged(leader, waiting.last_offset, waiting.value)
            elif leader.ended is None and self._is_alive(leader):
                left.append(waiting)
        self.waiting = left
        for leader, offset in list(self.deleting):
            if leader.ended is not None or not self._is_alive(leader):
                self.deleting.remove((leader, offset))
            elif leader.has_let_go(offset):
                self.note(f"deleted below {offset}")
                self.checks.told_start = max(self.checks.told_start, offset)
                self.deleting.remove((leader, offset))

    def _is_alive(self, leader: Leader) -> bool:
        return any(node.leader is leader for node in self.nodes.values())

    def _send_proposal(self, node: ToyNode, leader: Leader, proposal: ProposeIsr) -> None:
        self.note(f"{node.node_id} proposes {proposal.nodes} on {proposal.partition_epoch}")

        def arrives() -> None:
            error = self.controller.alter(node.node_id, proposal)
            self.send(node.node_id, f"proposal: {error.name}", lambda: hears(error), is_lost)

        def hears(error: ErrorCode) -> None:
            leader.isr_answered(proposal, error, self.now_ms)

        def is_lost() -> None:
            hears(ErrorCode.NETWORK_EXCEPTION)

        self.send(None, f"{node.node_id}'s proposal arrives", arrives, is_lost)

    def _send_fetch(self, node: ToyNode, fetch: SendFetch) -> None:
        asked = fetch.request.topics[0].partitions[0]
        following, epoch = node.following, node.membership.broker_epoch

        def arrives() -> None:
            data = self._serve(self.nodes[fetch.source], node.node_id, epoch, asked)
            response = FetchResponse(
                responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])]
            )
            text = f"{fetch.source} answers {node.node_id}: {in_words(data)}"
            self.send(node.node_id, text, lambda: hears(response))

        def hears(response: FetchResponse) -> None:
            if node.following is following and node.replica is not None:
                following.answered(self.now, fetch, response)
                node.replica.take_reports()

        text = f"{node.node_id} fetches at {asked.fetch_offset} after {asked.last_fetched_epoch}"
        self.send(fetch.source, f"{text} in {asked.current_leader_epoch}", arrives)

    def send(
        self,
        to: NodeId | None,
        text: str,
        deliver: Callable[[], None],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.network.append(Message(to, text, deliver, lost))

    def _serve(
        self, node: ToyNode, follower: NodeId, broker_epoch: int, asked: FetchPartition
    ) -> PartitionData:
        """What the API does with a follower's fetch."""
        leader = node.leader
        if leader is None:
            return PartitionData(
                partition_index=0, high_watermark=-1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                aborted_transactions=None, records=b"",
            )  # fmt: skip
        fetch = FollowerFetch(
            follower,
            broker_epoch,
            LeaderEpoch(asked.current_leader_epoch),
            Offset(asked.fetch_offset),
            LeaderEpoch(asked.last_fetched_epoch),
            Offset(asked.log_start_offset),
        )
        verdict = leader.check_fetch(fetch)
        data: Any = {"error_code": ErrorCode.NONE, "records": b""}
        if isinstance(verdict, ErrorCode):
            data["error_code"] = verdict
        elif isinstance(verdict, EpochEnd):
            data["diverging_epoch"] = EpochEndOffset(
                epoch=verdict.epoch, end_offset=verdict.end_offset
            )
        else:
            leader.note_fetch(fetch, self.now_ms)
            span = leader.read_to_end(
                fetch.fetch_offset, max_bytes=asked.partition_max_bytes, at_least_one=True
            )
            if isinstance(span, FileSpan):
                data["records"] = span.read()
            elif isinstance(span, ErrorCode):
                data["error_code"] = span
        return PartitionData(
            partition_index=0,
            high_watermark=leader.high_watermark,
            log_start_offset=leader.log.log_start_offset,
            aborted_transactions=None,
            **data,
        )


def in_words(data: PartitionData) -> str:
    if data.error_code is not ErrorCode.NONE:
        return data.error_code.name
    if data.diverging_epoch.epoch >= 0:
        return f"parts at {data.diverging_epoch.epoch}, {data.diverging_epoch.end_offset}"
    assert isinstance(data.records, bytes)
    return f"{len(data.records)} bytes, hw {data.high_watermark}, start {data.log_start_offset}"


__all__ = ["KEY", "NAME", "NODES", "MiniCluster"]

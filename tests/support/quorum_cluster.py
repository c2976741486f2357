"""A whole quorum in one process: machines, a bad network, disks that forget, and virtual time.

Everything is drawn from one `random.Random`, so a seed is a story. The network delays, loses and
doubles messages and has broken links, each in one direction; a crash loses what was not flushed and
all that was under way. The checks run after every step of a machine; the first one that fails ends
the story with a `Violation`.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from tests.support.quorum_disk import MemoryLog, MemoryVoteStore

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.quorum.batches import Batch
from tidelog.quorum.events import (
    ApplyCommitted,
    Effect,
    Event,
    FlushLog,
    LoadSnapshot,
    LogFlushed,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SendRequest,
    SendResponse,
    Ticked,
    Ticket,
)
from tidelog.quorum.messages import PeerResponse, Request, Response
from tidelog.quorum.quorum import Proposal, Quorum
from tidelog.quorum.settings import QuorumSettings
from tidelog.quorum.states import State
from tidelog.quorum.voters import ReplicaKey, VoterSet

SETTINGS = QuorumSettings(
    election_timeout_ms=150,
    election_backoff_max_ms=100,
    fetch_timeout_ms=300,
    request_timeout_ms=180,
    retry_backoff_ms=10,
    fetch_max_wait_ms=90,
    fetch_max_bytes=1,
    snapshot_piece_bytes=64,
    voter_change_timeout_ms=800,
)
"""Quick, so that a story has many elections; one batch per fetch, so that much can go wrong between
two; snapshots in many pieces."""


class Violation(AssertionError):
    """A property does not hold."""


@dataclass(slots=True)
class Fate:
    """How bad the network is."""

    delay_ms: float = 8.0
    loss: float = 0.0
    doubling: float = 0.0
    flush_ms: float = 5.0
    spike: float = 0.0


@dataclass(slots=True)
class Host:
    """A replica's machine and what is around it. `quorum` is none while it is down."""

    node_id: NodeId
    key: ReplicaKey
    log: MemoryLog = field(default_factory=MemoryLog)
    store: MemoryVoteStore = field(default_factory=MemoryVoteStore)
    quorum: Quorum | None = None
    life: int = 0
    said_epoch: int = 0
    applied: list[str] = field(default_factory=list)
    applied_end: Offset = Offset(0)  # noqa: RUF009
    tick_at: float | None = None
    tickets: dict[Ticket, Callable[[Response], None]] = field(default_factory=dict)


class Cluster:
    """`hosts` by node id; `run_until` lets time pass."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        *,
        voters: int | None = None,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
        settings: QuorumSettings = SETTINGS,
    ) -> None:
        self.random = Random(seed)
        self.settings = settings
        self.safeguards = safeguards
        self.fate = Fate()
        self.now = 0.0
        self.broken: set[tuple[NodeId, NodeId]] = set()
        self.configured = VoterSet.of_ids(range(1, (voters or nodes) + 1))
        self.leaders: dict[LeaderEpoch, NodeId] = {}
        self.committed: dict[Offset, Batch] = {}
        self.committed_end = Offset(0)
        self.trace: list[str] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._tickets = 0
        self.hosts: dict[NodeId, Host] = {}
        for number in range(1, nodes + 1):
            node_id = NodeId(number)
            self.hosts[node_id] = Host(node_id, ReplicaKey(node_id, UUID(int=1000 + number)))
        for host in self.hosts.values():
            self.start(host)

    # --- time -----------------------------------------------------------------------------------

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (time, self._count, action))

    def run_until(self, time: float) -> None:
        while self._agenda and self._agenda[0][0] <= time:
            self.now, _, action = heapq.heappop(self._agenda)
            action()
        self.now = time

    # --- hosts ----------------------------------------------------------------------------------

    def start(self, host: Host) -> None:
        host.life += 1
        host.quorum = Quorum(
            host.key,
            self.configured,
            log=host.log,
            store=host.store,
            random=Random(self.random.random()),
            now_ms=self.now,
            settings=self.settings,
            bootstrap=self.configured.node_ids,
            safeguards=self.safeguards,
        )
        if host.quorum.epoch < host.said_epoch:
            raise Violation(f"node {host.node_id} forgot epoch {host.said_epoch}")
        restored = host.quorum.restored_state()
        host.applied = [] if restored is None else json.loads(restored)
        host.applied_end = host.log.start_offset
        self._schedule_tick(host)

    def crash(self, host: Host) -> None:
        if host.quorum is not None:
            host.quorum = None
            host.life += 1
            host.tickets.clear()
            host.tick_at = None
            host.log.crash(self.random)

    def step(self, host: Host, event: Event) -> None:
        if host.quorum is not None:
            effects = host.quorum.step(self.now, event)
            self._settle(host, effects)

    def propose(self, host: Host, values: list[str]) -> Proposal | None:
        if host.quorum is None:
            return None
        records = [value.encode() for value in values]
        proposal, effects = host.quorum.propose(self.now, records)
        self._settle(host, effects)
        return proposal

    def snapshot(self, host: Host) -> None:
        """Of all that the host has applied."""
        if host.quorum is not None and host.applied_end > host.log.start_offset:
            host.quorum.snapshot(host.applied_end, json.dumps(host.applied).encode())
            self._settle(host, [])

    def ask(self, host: Host, request: Request, hear: Callable[[Response], None]) -> None:
        """A request of an administrator, over a good connection."""
        self.step(host, RequestReceived(self._ticket(host, hear), request))

    def leader(self) -> Host | None:
        """The one of the highest epoch."""
        leading = [h for h in self.hosts.values() if h.quorum and h.quorum.state is State.LEADER]
        return max(leading, key=lambda host: host.quorum.epoch if host.quorum else 0, default=None)

    def _settle(self, host: Host, effects: list[Effect]) -> None:
        assert host.quorum is not None
        host.quorum.validate()
        self._check(host)
        for effect in effects:
            self._carry_out(host, effect)
        self._schedule_tick(host)

    def _schedule_tick(self, host: Host) -> None:
        assert host.quorum is not None
        deadline = host.quorum.next_deadline()
        if deadline is None or (host.tick_at is not None and host.tick_at <= deadline):
            return
        host.tick_at = max(deadline, self.now)
        life, due = host.life, host.tick_at

        def tick() -> None:
            if host.life == life and host.tick_at == due:
                host.tick_at = None
                self.step(host, Ticked())

        self.at(due, tick)

    # --- effects --------------------------------------------------------------------------------

    def _carry_out(self, host: Host, effect: Effect) -> None:
        assert host.quorum is not None
        host.said_epoch = max(host.said_epoch, host.quorum.epoch)
        if isinstance(effect, SendRequest):
            self._carry_request(host, effect)
        elif isinstance(effect, SendResponse):
            hear = host.tickets.pop(effect.ticket, None)
            if hear is not None:
                hear(effect.response)
        elif isinstance(effect, FlushLog):
            self._flush(host)
        elif isinstance(effect, ApplyCommitted):
            self._apply(host, effect.high_watermark)
        elif isinstance(effect, LoadSnapshot):
            host.applied = json.loads(effect.state)
            host.applied_end = effect.snapshot_id.end_offset

    def _flush(self, host: Host) -> None:
        life, target = host.life, host.log.end_offset

        def done() -> None:
            if host.life == life:
                host.log.flushed(target)
                self.step(host, LogFlushed())

        self.at(self.now + self.random.random() * self.fate.flush_ms, done)

    def _ticket(self, host: Host, hear: Callable[[Response], None]) -> Ticket:
        self._tickets += 1
        host.tickets[Ticket(self._tickets)] = hear
        return Ticket(self._tickets)

    def _carry_request(self, host: Host, effect: SendRequest) -> None:
        life, target = host.life, self.hosts[effect.destination]

        def answered(response: Response) -> None:
            def arrive() -> None:
                if host.life == life:
                    self.step(host, ResponseReceived(effect.number, _of_peer(response)))

            self._carry(target.node_id, host.node_id, arrive)

        def arrive() -> None:
            if target.quorum is not None:
                ticket = self._ticket(target, answered)
                self.step(target, RequestReceived(ticket, effect.request))
            elif host.life == life:
                self.step(host, RequestFailed(effect.number))

        self._carry(host.node_id, target.node_id, arrive)

    def _carry(self, source: NodeId, target: NodeId, arrive: Callable[[], None]) -> None:
        """The network. A broken link swallows; nobody is told."""
        fate, random = self.fate, self.random
        for _ in range(2 if random.random() < fate.doubling else 1):
            delay = random.random() * fate.delay_ms
            if random.random() < fate.spike:
                delay += random.random() * 400
            if random.random() < fate.loss or (source, target) in self.broken:
                continue
            self.at(self.now + delay, arrive)

    # --- what must hold -------------------------------------------------------------------------

    def _check(self, host: Host) -> None:
        quorum = host.quorum
        assert quorum is not None
        if quorum.epoch < host.said_epoch:
            raise Violation(f"node {host.node_id} went back from epoch {host.said_epoch}")
        if host.log.truncations:
            low = min(host.log.truncations)
            host.log.truncations.clear()
            if low < host.applied_end:
                raise Violation(f"node {host.node_id} cut applied records, to {low}")
        if quorum.state is State.LEADER and self.leaders.get(quorum.epoch) != host.node_id:
            self._check_election(host, quorum)

    def _check_election(self, host: Host, quorum: Quorum) -> None:
        """ElectionSafety; LeaderCompleteness; nobody else is certain to be the only one."""
        other = self.leaders.setdefault(quorum.epoch, host.node_id)
        if other != host.node_id:
            raise Violation(f"epoch {quorum.epoch} has leaders {other} and {host.node_id}")
        for rival in self.hosts.values():
            until_ms = None if rival.quorum is None else rival.quorum.office_until_ms
            if rival is not host and until_ms is not None and until_ms > self.now:
                raise Violation(
                    f"node {host.node_id} was elected in epoch {quorum.epoch} at {self.now}, and "
                    f"node {rival.node_id} is certain of its office until {until_ms}"
                )
        for batch in self.committed.values():
            if batch.base_offset < host.log.start_offset:
                continue
            is_there = batch.next_offset <= host.log.end_offset
            if not is_there or host.log.batch_at(batch.base_offset) != batch:
                raise Violation(f"leader {host.node_id} of {quorum.epoch} lacks {batch}")

    def _apply(self, host: Host, end: Offset) -> None:
        """StateMachineSafety; Durability (by a majority of the voters that the host knows)."""
        quorum = host.quorum
        assert quorum is not None
        offset = host.applied_end
        while offset < end:
            for batch in quorum.read_committed(offset):
                known = self.committed.setdefault(batch.base_offset, batch)
                if known != batch:
                    raise Violation(f"node {host.node_id} applies {batch}, others {known}")
                if batch.next_offset > self.committed_end:
                    self.committed_end = batch.next_offset
                    self._check_durable(quorum, batch)
                host.applied += [record.decode() for record in batch.records]
                offset = batch.next_offset
        host.applied_end = offset

    def _check_durable(self, quorum: Quorum, batch: Batch) -> None:
        logs = [self.hosts[voter.node_id].log for voter in quorum.voters]
        count = sum(log.holds_durably(batch) for log in logs)
        if count < quorum.voters.majority:
            raise Violation(f"{batch} is committed and durable on {count} voters only")

    def check_logs(self) -> None:
        """LogMatching: where two logs have a record of one epoch at one offset, all before it is
        the same."""
        logs = [host.log for host in self.hosts.values()]
        for number, one in enumerate(logs):
            for other in logs[number + 1 :]:
                _check_matching(one, other)


def _check_matching(one: MemoryLog, other: MemoryLog) -> None:
    theirs = {batch.base_offset: batch for batch in other.batches}
    pairs = [(b, theirs[b.base_offset]) for b in one.batches if b.base_offset in theirs]
    agreed = [index for index, (a, b) in enumerate(pairs) if a.epoch == b.epoch]
    for a, b in pairs[: agreed[-1] + 1 if agreed else 0]:
        if a != b:
            raise Violation(f"two logs agree later on, and differ in {a} and {b}")


def _of_peer(response: Response) -> PeerResponse:
    assert isinstance(response, PeerResponse)
    return response

"""A machine that runs a node: one disk, one clock, and one life of the node after another.

A crash is honest: effects of the old life do nothing any more (a flush under way never reports, a
response not yet sent is not sent), and the next life knows only what the disk holds. The memory of
a frame is overwritten as soon as the node has received it: a node that kept a view is found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Literal

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effects import (
    CallPeer,
    CloseConnection,
    Effect,
    HangUp,
    PauseReading,
    ReadRange,
    Report,
    ResumeReading,
    SendResponse,
    StartFlush,
    Stop,
)
from tidelog.broker.events import (
    ConnectionClosed,
    ConnectionOpened,
    Event,
    FlushDone,
    FrameReceived,
    PeerAnswered,
    PeerFailed,
    RangeRead,
    StopRequested,
    Tick,
)
from tidelog.broker.node import Node
from tidelog.broker.start import StartRefused
from tidelog.log.disk import DiskError
from tidelog.model.ids import ConnectionId, Endpoint, NodeId
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.sim.clock import HostClock
from tidelog.sim.disk import FlushTicket, SimDisk, SimFile
from tidelog.sim.disk_faults import PowerLost
from tidelog.sim.effort import HELD_BACK_FROM_MS, MAX_EVENT_MS, MAX_OPENING_MS
from tidelog.sim.network import Connection, Network
from tidelog.sim.page_cache import CachePlan
from tidelog.sim.peer_links import Find, PeerLinks
from tidelog.sim.schedule import Timer
from tidelog.sim.trace import Trace
from tidelog.sim.turns import Turns
from tidelog.sim.zookeeper import ZooKeeperLink, ZooKeeperService
from tidelog.zookeeper.requests import AskZooKeeper, ZooKeeperSpoke

CrashKind = Literal["kill", "power"]
NodeFactory = Callable[..., Node]

POISON = 0xA5


@dataclass(slots=True)
class HostOptions:
    """What a host runs and how closely it is watched."""

    config: NodeConfig
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS
    make_node: NodeFactory = Node
    validate_every: int = 1
    has_battery: bool = False
    """The machine never loses power: at the worst the process dies."""
    flush_ms: tuple[float, float] = (0.2, 2.0)
    cache: CachePlan = field(default_factory=CachePlan)
    turn_events: int = 1
    """So many events at most are received before the node settles."""


@dataclass(slots=True)
class Life:
    """One incarnation of the node."""

    node: Node
    number: int
    links: PeerLinks
    zookeeper: ZooKeeperLink | None = None
    connections: dict[ConnectionId, Connection] = field(default_factory=dict)
    tick: Timer | None = None
    tick_due_ms: float = -1.0
    tick_armed_ms: float = -1.0
    faults_before: Counter[str] = field(default_factory=Counter)


class Host:
    """Runs a node on a simulated disk and clock. Implements `network.Server`."""

    def __init__(
        self,
        network: Network,
        trace: Trace,
        options: HostOptions,
        *,
        find_peer: Find,
        seed_of: Callable[[str], Random],
        zookeeper: ZooKeeperService | None = None,
    ) -> None:
        self._network = network
        self._zookeeper = zookeeper
        self._schedule = network.schedule
        self._trace = trace
        self._options = options
        self._find_peer = find_peer
        self._node_random = seed_of("node")
        self._flush_random = seed_of("flush")
        self.clock = HostClock(seed_of("clock"))
        self._read_random = seed_of("reads")
        self.disk = SimDisk(seed_of("disk"), seed_of("page cache"))
        self.disk.page_cache.plan = options.cache
        self.life: Life | None = None
        self.lives = 0
        self.steps = 0
        self.flush_stall_ms = 0.0
        self.is_reachable = True
        self._backlog: list[Event] | None = None
        self._turns = Turns(
            network.schedule,
            seed_of("turns"),
            most_events=options.turn_events,
            take=self._take_turn,
        )
        self._unpaid_ms = 0.0
        """Of virtual time, for work of the last few turns."""
        self.is_flushing = False
        self.reports: list[str] = []
        self.counted: Counter[str] = Counter()
        self.flush_failures: dict[int, float] = {}
        """When a life has heard of the first."""
        self.troubled_starts: list[int] = []
        self.stopped_lives: list[int] = []
        self._faults_of_lives: dict[int, Counter[str]] = {}
        self.on_death: list[Callable[[CrashKind | None], None]] = []
        self.on_start: list[Callable[[], None]] = []
        self.on_request: list[Callable[[ConnectionId, bytes], None]] = []
        self.on_response: list[Callable[[SendResponse], None]] = []
        self.on_step: list[Callable[[Life], None]] = []
        self.after_step: list[Callable[[Host], None]] = []

    # --- lives -----------------------------------------------------------------------------------

    @property
    def node_id(self) -> NodeId:
        return self._options.config.node_id

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self._options.config.host, self._options.config.port)

    @property
    def is_up(self) -> bool:
        return self.life is not None

    def start(self) -> bool:
        """A new life from what the disk holds; False if the node refused or the disk failed."""
        assert self.life is None, "the node is running already"
        options = self._options
        self.lives += 1
        node = options.make_node(
            options.config,
            self.disk,
            Random(self._node_random.getrandbits(64)),
            safeguards=options.safeguards,
        )
        number = self.lives
        links = PeerLinks(
            self._network,
            options.config.node_id,
            find=self._find_peer,
            on_event=lambda event: self._peer_event(number, event),
        )
        life = Life(node, number, links, faults_before=Counter(self.disk.faults.counted))
        self.life = life
        try:
            effects = node.start(self.clock.now(self._schedule.now_ms))
        except PowerLost:
            self.counted["power failure during start"] += 1
            self.crash("power")
            return False
        except (DiskError, StartRefused) as error:
            self._trace.say("start", f"life {life.number} could not start: {error}")
            self.counted["failed start"] += 1
            self.crash("kill")
            return False
        self._trace.say("start", f"life {life.number} is up")
        if self._zookeeper is not None:
            life.zookeeper = self._link(self._zookeeper, number)
        if self.faults_of(life.number).total():
            self.troubled_starts.append(life.number)
        for watcher in self.on_start:
            watcher()
        self._carry_out(life, effects)
        self._after_step(life)
        return True

    def _link(self, service: ZooKeeperService, number: int) -> ZooKeeperLink:
        return ZooKeeperLink(
            service,
            self.node_id,
            timeout_ms=self._options.config.settings.zookeeper_session_timeout_ms,
            is_running=lambda: self._backlog is None,
            on_word=lambda word: self._peer_event(number, ZooKeeperSpoke(word)),
        )

    def crash(self, kind: CrashKind) -> None:
        """The process is killed, or the machine loses power: also while no node runs on it."""
        if self._options.has_battery:
            kind = "kill"
        for watcher in self.on_death:
            watcher(kind)
        if self.life is not None:
            self._trace.say("crash", f"life {self.life.number} ends: {kind}")
            self._end_life()
        if kind == "power":
            self.disk.lose_power()
        else:
            self.disk.lose_process()

    def stop(self) -> None:
        """Ask the node to stop; it does so within the turn."""
        life = self.life
        if life is None:
            return
        self._trace.say("stop", f"life {life.number} is asked to stop")
        self.stopped_lives.append(life.number)
        self.deliver(StopRequested())
        if self._backlog is None and not self._options.config.is_member:
            assert self.life is not life, "the node did not stop when asked to"

    def _end_life(self) -> None:
        life = self.life
        assert life is not None
        self._faults_of_lives[life.number] = self.faults_of(life.number)
        self.life = None
        self._backlog = None
        self._turns.cut()
        self._unpaid_ms = 0.0
        self.is_flushing = False
        if life.tick is not None:
            life.tick.cancel()
        for connection in life.connections.values():
            connection.lose_host()
        life.links.lose_host()
        if life.zookeeper is not None:
            life.zookeeper.lose_host()

    def faults_of(self, number: int) -> Counter[str]:
        """What the disk did to the node in that life, its start included."""
        if self.life is not None and self.life.number == number:
            return self.disk.faults.counted - self.life.faults_before
        return self._faults_of_lives.get(number, Counter())

    # --- a process that is stopped, and does not know it -----------------------------------------

    def freeze(self) -> None:
        """As SIGSTOP: nothing happens in the process, though the world goes on."""
        if self.life is not None and self._backlog is None:
            self._trace.say("freeze", f"life {self.life.number} stands still")
            self._backlog = self._turns.cut()

    def thaw(self) -> None:
        """All that has come meanwhile happens now, to a node that believes no time has passed
        until it looks at the clock."""
        backlog, self._backlog = self._backlog, None
        for event in backlog or []:
            self.deliver(event)

    # --- events ----------------------------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> bool:
        life = self.life
        if life is None or not self.is_reachable:
            return False
        connection.incarnation = life.number
        life.connections[connection.id] = connection
        self.deliver(ConnectionOpened(connection.id, f"client-{connection.id}"))
        return self.life is life

    def connection_closed(self, connection: Connection) -> None:
        life = self.life
        if life is not None and life.connections.pop(connection.id, None) is not None:
            self.deliver(ConnectionClosed(connection.id))

    def frame_received(self, connection: Connection, frame: bytes) -> None:
        if self.life is None or connection.id not in self.life.connections:
            return
        for watcher in self.on_request:
            watcher(connection.id, frame)
        self.deliver(FrameReceived(connection.id, memoryview(bytearray(frame))))

    def _peer_event(self, number: int, event: PeerAnswered | PeerFailed | ZooKeeperSpoke) -> None:
        if self.life is not None and self.life.number == number:
            self.deliver(event)

    def deliver(self, event: Event) -> None:
        """The event has come to the process; the node hears of it in the next turn."""
        if self.life is None:
            return
        if self._backlog is not None:
            self._backlog.append(event)
        else:
            self._turns.add(event)

    def _take_turn(self, events: list[Event]) -> None:
        """All that has come, received at one time, and what it leads to together."""
        life = self.life
        assert life is not None, "events of a life end with it"
        self._check_deleted_files(life)
        now = self.clock.now(self._schedule.now_ms)
        self.steps += 1
        spent_before_ms = self.disk.effort.spent_ms
        limit_ms = _limit_ms(life, events)
        try:
            for event in events:
                self._trace.event(event)
                if isinstance(event, FlushDone) and event.error is not None:
                    self.flush_failures.setdefault(life.number, self._schedule.now_ms)
                effects = life.node.receive(now, event)
                _overwrite(event)
                self._carry_out(life, effects)
                if self.life is not life:
                    return
            effects = life.node.settle(now)
        except PowerLost:
            self.counted["power failure during a step"] += 1
            self.crash("power")
            return
        self._carry_out(life, effects)
        if self.life is life:
            spent_ms = self.disk.effort.spent_ms - spent_before_ms
            assert spent_ms <= limit_ms, (
                f"a turn of {len(events)} events takes {spent_ms:.0f} ms, in which nobody else is "
                f"served: {events!r:.100}"
            )
            self._charge(spent_ms)
            self._after_step(life)

    def _charge(self, spent_ms: float) -> None:
        """The time that a turn has taken: the next one comes after it."""
        self._unpaid_ms += spent_ms
        if self._unpaid_ms >= HELD_BACK_FROM_MS:
            self._turns.works_for(self._unpaid_ms)
            self._unpaid_ms = 0.0

    def _check_deleted_files(self, life: Life) -> None:
        """Between two turns, only a response that waits for its reader keeps a deleted file."""
        if self.disk.deleted_but_pinned():
            is_sending = any(each.has_unsent_responses for each in life.connections.values())
            assert is_sending, "a deleted file takes up room, and nobody sends from it"

    def _after_step(self, life: Life) -> None:
        if self.steps % self._options.validate_every == 0:
            life.node.validate()
            for onlooker in self.after_step:
                onlooker(self)
        for watcher in self.on_step:
            watcher(life)
        deadline = life.node.next_deadline()
        if deadline is None or deadline == life.tick_due_ms:
            return
        life.tick_due_ms = deadline
        if life.tick is None or deadline < life.tick_armed_ms:
            self._arm(life)

    def _arm(self, life: Life) -> None:
        """Wake the node when it is due: a hair later, so that rounding never does so before its own
        clock says so. A deadline that is postponed, as most are, leaves the timer where it is."""
        if life.tick is not None:
            life.tick.cancel()
        life.tick_armed_ms = life.tick_due_ms
        due = self.clock.virtual_of(life.tick_armed_ms) + 1e-3
        life.tick = self._schedule.at(due, lambda: self._tick(life))

    def _tick(self, life: Life) -> None:
        life.tick = None
        if life.tick_armed_ms < life.tick_due_ms:
            self._arm(life)
            return
        life.tick_due_ms = -1.0
        if self.life is life:
            self.deliver(Tick())

    # --- effects ---------------------------------------------------------------------------------

    def _carry_out(self, life: Life, effects: list[Effect]) -> None:
        for effect in effects:
            if self.life is not life:
                return
            self._trace.effect(effect)
            if isinstance(effect, SendResponse):
                for on_response in self.on_response:
                    on_response(effect)
                connection = life.connections.get(effect.connection)
                if connection is not None:
                    connection.send(effect.parts, emitted_ms=self._schedule.now_ms)
            elif isinstance(effect, StartFlush):
                self._begin_flush(life, effect)
            elif isinstance(effect, ReadRange):
                self._begin_read(life, effect)
            elif isinstance(effect, CloseConnection):
                connection = life.connections.get(effect.connection)
                if connection is not None:
                    connection.close_by_node()
            elif isinstance(effect, CallPeer):
                life.links.call(effect)
            elif isinstance(effect, PauseReading | ResumeReading):
                connection = life.connections.get(effect.connection)
                if connection is not None:
                    connection.to_node.pause(isinstance(effect, PauseReading))
            elif isinstance(effect, HangUp):
                life.links.hang_up(effect)
            elif isinstance(effect, AskZooKeeper):
                assert life.zookeeper is not None
                life.zookeeper.ask(effect)
            elif isinstance(effect, Report):
                self.reports.append(f"{effect.level}: {effect.text}")
            elif isinstance(effect, Stop):
                for watcher in self.on_death:
                    watcher(None)
                if life.zookeeper is not None:
                    life.zookeeper.close()
                self._end_life()
                self.disk.lose_process()

    def _begin_read(self, life: Life, effect: ReadRange) -> None:
        duration_ms = self.disk.page_cache.plan.draw_read_ms(self._read_random)
        self._schedule.after(duration_ms, lambda: self._finish_read(life, effect))

    def _finish_read(self, life: Life, effect: ReadRange) -> None:
        if self.life is not life:
            return
        file = effect.file
        assert isinstance(file, SimFile), f"{file!r} is not of this disk"
        self.counted["cold read"] += 1
        try:
            file.load(effect.position, effect.size)
        except DiskError as error:
            self.counted["cold read failed"] += 1
            self.deliver(RangeRead(effect.number, error))
        else:
            self.deliver(RangeRead(effect.number))

    def _begin_flush(self, life: Life, effect: StartFlush) -> None:
        ticket = self.disk.begin_flush(effect.targets)
        self.is_flushing = True
        duration_ms = self._flush_random.uniform(*self._options.flush_ms) + self.flush_stall_ms
        self._schedule.after(duration_ms, lambda: self._finish_flush(life, effect.round, ticket))

    def _finish_flush(self, life: Life, number: int, ticket: FlushTicket) -> None:
        if self.life is not life:
            return
        self.is_flushing = False
        try:
            self.disk.finish_flush(ticket)
        except DiskError as error:
            self.deliver(FlushDone(number, error))
        else:
            self.deliver(FlushDone(number))


def _limit_ms(life: Life, events: list[Event]) -> float:
    """What the turn may take. A node that stops serves nobody any more."""
    if any(isinstance(event, StopRequested) for event in events):
        return inf
    replicas = life.node.state.replicas
    is_opening = replicas.has_deferred and not replicas.membership.may_lead
    return len(events) * (MAX_OPENING_MS if is_opening else MAX_EVENT_MS)


def _overwrite(event: Event) -> None:
    """The memory of a frame is somebody else's as soon as the node has received it."""
    if isinstance(event, FrameReceived | PeerAnswered):
        event.frame[:] = bytes((POISON,)) * len(event.frame)

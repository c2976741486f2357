"""A ZooKeeper in memory, and each node's way to it: the twin of `runtime.zookeeper`.

The ensemble is one linearizable tree of znodes: versions, writes of several changes that happen all
or not at all, sessions that run out, ephemeral znodes that go with them, watches that fire once. It
may be away as a whole: then no session runs out, as with a real one, which gives everybody a full
timeout when it is back.

A link belongs to one life of a node. It can be cut, and it can break: then what was on its way to
the server is lost, and so is the answer to what has happened already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tidelog.model.ids import NodeId
from tidelog.sim.schedule import Schedule, Timer
from tidelog.zookeeper.requests import (
    ANY_VERSION,
    NO_SESSION,
    Answered,
    AskZooKeeper,
    Change,
    Check,
    Children,
    Create,
    Delete,
    Get,
    Got,
    Listed,
    Missing,
    Put,
    Reason,
    Refused,
    Request,
    Result,
    SessionExpired,
    SessionId,
    SessionResumed,
    SessionStarted,
    SessionSuspended,
    Unheard,
    WatchFired,
    Word,
    Written,
)

_FIRST_SESSION = 0x1000
_RETRY_MS = (5.0, 40.0)
_DELAY_MS = (0.1, 2.0)
_HELD_MS = 2.0
_PINGS_PER_SESSION = 3


@dataclass(slots=True)
class _Znode:
    data: bytes
    version: int = 0
    owner: SessionId = NO_SESSION


@dataclass(slots=True)
class _Session:
    timeout_ms: float
    heard_ms: float
    tell: Callable[[Word], None]


Tree = dict[str, _Znode]


class ZooKeeperService:
    """The ensemble."""

    def __init__(self, schedule: Schedule, random: Random) -> None:
        self.schedule = schedule
        self.random = random
        self.is_away = False
        self.cuts: dict[NodeId, None] = {}
        """Nodes that can't reach it."""
        self.links: dict[NodeId, ZooKeeperLink] = {}
        self._tree: Tree = {"/": _Znode(b"")}
        self._sessions: dict[SessionId, _Session] = {}
        self._opened = _FIRST_SESSION
        self._watches: dict[tuple[str, str], dict[SessionId, None]] = {}

    # --- faults ---------------------------------------------------------------------------------

    def go_away(self) -> None:
        self.is_away = True

    def come_back(self) -> None:
        self.is_away = False
        for number, session in self._sessions.items():
            session.heard_ms = self.schedule.now_ms
            self._watch_over(number)

    def expire(self, number: SessionId) -> None:
        """End a session, whatever it may think: its ephemeral znodes go."""
        if self._sessions.pop(number, None) is None:
            return
        for path in [path for path, znode in self._tree.items() if znode.owner == number]:
            del self._tree[path]
            self._changed(path)
            self._changed(_parent(path), "children")

    # --- sessions -------------------------------------------------------------------------------

    def open(self, timeout_ms: float, tell: Callable[[Word], None]) -> SessionId:
        self._opened += 1
        number = SessionId(self._opened)
        self._sessions[number] = _Session(timeout_ms, self.schedule.now_ms, tell)
        self._watch_over(number)
        return number

    def hear(self, number: SessionId) -> bool:
        """The session was heard of; whether there is one."""
        session = self._sessions.get(number)
        if session is not None:
            session.heard_ms = self.schedule.now_ms
        return session is not None

    def _watch_over(self, number: SessionId) -> None:
        session = self._sessions.get(number)
        if session is None or self.is_away:
            return
        ends_ms = session.heard_ms + session.timeout_ms
        if self.schedule.now_ms >= ends_ms:
            self.expire(number)
        else:
            self.schedule.at(ends_ms + 1e-3, lambda: self._watch_over(number))

    # --- requests -------------------------------------------------------------------------------

    def perform(self, number: SessionId, request: Request) -> Result:
        if isinstance(request, Get):
            if request.watches:
                self._watches.setdefault((request.path, "data"), {})[number] = None
            znode = self._tree.get(request.path)
            return Missing() if znode is None else Got(znode.data, znode.version, znode.owner)
        if isinstance(request, Children):
            if request.path not in self._tree:
                return Missing()
            if request.watches:
                self._watches.setdefault((request.path, "children"), {})[number] = None
            return Listed(tuple(_children(self._tree, request.path)))
        return self._write(number, request.changes)

    def _write(self, number: SessionId, changes: tuple[Change, ...]) -> Result:
        draft = dict(self._tree)
        for index, change in enumerate(changes):
            reason = _refusal(draft, change)
            if reason is not None:
                return Refused(index, reason)
            _apply(draft, change, number)
        self._tree = draft
        for change in changes:
            if not isinstance(change, Check):
                self._changed(change.path)
            if isinstance(change, Create | Delete):
                self._changed(_parent(change.path), "children")
        return Written()

    def _changed(self, path: str, what: str = "data") -> None:
        for number in self._watches.pop((path, what), {}):
            session = self._sessions.get(number)
            if session is not None:
                session.tell(WatchFired(path))


def _children(tree: Tree, path: str) -> list[str]:
    prefix = path.rstrip("/") + "/"
    below = (each[len(prefix) :] for each in tree if each.startswith(prefix))
    return sorted(name for name in below if name and "/" not in name)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _refusal(tree: Tree, change: Change) -> Reason | None:
    znode = tree.get(change.path)
    if isinstance(change, Create):
        if znode is not None:
            return "exists"
        return None if _parent(change.path) in tree else "missing"
    if znode is None:
        return "missing"
    if change.version not in (ANY_VERSION, znode.version):
        return "version"
    if isinstance(change, Delete) and _children(tree, change.path):
        return "not empty"
    return None


def _apply(tree: Tree, change: Change, session: SessionId) -> None:
    if isinstance(change, Create):
        owner = session if change.is_ephemeral else NO_SESSION
        tree[change.path] = _Znode(change.data, owner=owner)
    elif isinstance(change, Put):
        old = tree[change.path]
        tree[change.path] = _Znode(change.data, old.version + 1, old.owner)
    elif isinstance(change, Delete):
        del tree[change.path]


class _Lane:
    """One direction of a connection: what is sent arrives in order, and late if it is cut."""

    def __init__(self, schedule: Schedule, can_pass: Callable[[], bool]) -> None:
        self._schedule = schedule
        self._can_pass = can_pass
        self._due_ms = 0.0
        self._queue: deque[Callable[[], None]] = deque()

    def push(self, delay_ms: float, arrive: Callable[[], None]) -> None:
        self._due_ms = max(self._due_ms, self._schedule.now_ms + delay_ms)
        self._queue.append(arrive)
        self._schedule.at(self._due_ms, self._deliver)

    def clear(self) -> None:
        self._queue.clear()

    def _deliver(self) -> None:
        if not self._queue:
            return
        if self._can_pass():
            self._queue.popleft()()
        else:
            self._schedule.after(_HELD_MS, self._deliver)


@dataclass(slots=True)
class _Connection:
    """What is on its way ends with it."""

    there: _Lane
    back: _Lane
    pending: dict[int, None] = field(default_factory=dict)

    def end(self) -> None:
        self.there.clear()
        self.back.clear()


class ZooKeeperLink:
    """One life's client: what kazoo is to a process."""

    def __init__(
        self,
        service: ZooKeeperService,
        node_id: NodeId,
        *,
        timeout_ms: float,
        is_running: Callable[[], bool],
        on_word: Callable[[Word], None],
    ) -> None:
        self._service = service
        self._schedule = service.schedule
        self._node_id = node_id
        self._timeout_ms = timeout_ms
        self._is_running = is_running
        self._on_word = on_word
        self.session = NO_SESSION
        self._connection: _Connection | None = None
        self._heard_ms = 0.0
        self._timer: Timer | None = None
        self._is_gone = False
        service.links[node_id] = self
        self._later(self._service.random.uniform(*_DELAY_MS))

    def lose_host(self) -> None:
        """The process is gone; its session is not."""
        self._is_gone = True
        if self._connection is not None:
            self._connection.end()
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """A clean end: the session ends with it."""
        if self._can_reach():
            self._service.expire(self.session)
        self.lose_host()

    def reset(self) -> None:
        """The connection breaks, wherever what it carries is."""
        if self._connection is not None:
            self._suspend()

    def ask(self, effect: AskZooKeeper) -> None:
        connection = self._connection
        if connection is None or effect.session != self.session:
            self._schedule.after(0.0, lambda: self._tell(Answered(effect.number, Unheard())))
            return
        connection.pending[effect.number] = None
        connection.there.push(self._delay_ms(), lambda: self._arrive(connection, effect))

    # --- there and back -------------------------------------------------------------------------

    def _arrive(self, connection: _Connection, effect: AskZooKeeper) -> None:
        if not self._service.hear(effect.session):
            self._suspend()  # the server has closed it
            return
        number, result = effect.number, self._service.perform(effect.session, effect.request)
        connection.back.push(self._delay_ms(), lambda: self._answer(connection, number, result))

    def _answer(self, connection: _Connection, number: int, result: Result) -> None:
        connection.pending.pop(number, None)
        self._heard_ms = self._schedule.now_ms
        self._tell(Answered(number, result))

    def _fire(self, word: Word) -> None:
        """A watch: in order with the answers."""
        if self._connection is not None:
            self._connection.back.push(self._delay_ms(), lambda: self._tell(word))

    # --- keeping the session --------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._is_gone:
            return
        if not self._is_running():
            self._later(_RETRY_MS[0])
        elif self._connection is None:
            self._reconnect()
        else:
            self._ping()

    def _ping(self) -> None:
        if self._can_reach():
            if not self._service.hear(self.session):
                self._suspend()  # the server has closed it
                return
            self._heard_ms = self._schedule.now_ms
        elif self._schedule.now_ms - self._heard_ms >= self._timeout_ms * 2 / 3:
            self._suspend()
            return
        self._later(self._timeout_ms / _PINGS_PER_SESSION / 2)

    def _reconnect(self) -> None:
        if self._can_reach():
            self._heard_ms = self._schedule.now_ms
            there, back = (_Lane(self._schedule, self._can_reach) for _ in range(2))
            self._connection = _Connection(there, back)
            if self.session != NO_SESSION and self._service.hear(self.session):
                self._tell(SessionResumed())
            else:
                if self.session != NO_SESSION:
                    self._tell(SessionExpired())
                self.session = self._service.open(self._timeout_ms, self._fire)
                self._tell(SessionStarted(self.session, self._timeout_ms))
        self._later(self._service.random.uniform(*_RETRY_MS))

    def _suspend(self) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        connection.end()
        for number in connection.pending:
            self._tell(Answered(number, Unheard()))
        self._tell(SessionSuspended())
        self._later(self._service.random.uniform(*_RETRY_MS))

    def _later(self, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._schedule.after(delay_ms, self._go_on)

    def _can_reach(self) -> bool:
        return not (self._service.is_away or self._node_id in self._service.cuts)

    def _tell(self, word: Word) -> None:
        if not self._is_gone:
            self._on_word(word)

    def _delay_ms(self) -> float:
        return self._service.random.uniform(*_DELAY_MS)

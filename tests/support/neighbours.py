"""Whole nodes beside each other in one thread: real machines, real files, calls between them
delivered at once; time moves to the next deadline when nothing else is left to do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effects import CallPeer, Effect, SendResponse, StartFlush, Stop
from tidelog.broker.events import (
    ConnectionOpened,
    Event,
    FlushDone,
    FrameReceived,
    PeerAnswered,
    PeerFailed,
    StopRequested,
    Tick,
)
from tidelog.broker.node import Node
from tidelog.log.disk import Disk, FileSpan
from tidelog.metadata.image import Image
from tidelog.model.clock import Now
from tidelog.model.ids import CallId, ConnectionId, Endpoint, NodeId
from tidelog.model.settings import node_settings, parse_settings
from tidelog.runtime.file_disk import FileDisk

HOST = "127.0.0.1"
FIRST_PORT = 9000
MOST_STEPS = 20_000
_CLIENT = 0
"""Who asks, if it is no node."""


class Neighbours:
    """Node N is at port 9000 + N and keeps its files in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now_ms = 1000.0
        self.nodes: dict[int, Node] = {}
        self._events: deque[tuple[int, Event]] = deque()
        self._lines: dict[tuple[int, Endpoint, object], ConnectionId] = {}
        self._asked: dict[tuple[int, ConnectionId], deque[tuple[int, CallId]]] = {}
        self._stopped: list[int] = []
        self.answers: list[memoryview] = []
        """Frames that clients were sent, without their lengths."""

    @property
    def now(self) -> Now:
        return Now(self._now_ms, 1_700_000_000_000 + int(self._now_ms))

    def start(self, number: int, *, disk: Disk | None = None, **settings: str) -> Node:
        """The node on its folder, as it was left, or on a disk of the test's own."""
        values = parse_settings({n.replace("_", "."): v for n, v in settings.items()}, "node")
        config = NodeConfig(
            node_id=NodeId(number),
            host=HOST,
            port=FIRST_PORT + number,
            settings=node_settings(values),
            topic_defaults=values,
        )
        node = Node(config, disk or FileDisk(self._folder / str(number)), Random(number))
        self.nodes[number] = node
        self._perform(number, node.start(self.now))
        return node

    def kill(self, number: int) -> None:
        """Not another step; who waits for it hears that it is gone."""
        del self.nodes[number]
        self._lines = {
            line: there for line, there in self._lines.items() if line[1] != _endpoint(number)
        }
        for (there, _), asked in self._asked.items():
            if there == number:
                self._events += [(who, PeerFailed(call, "gone")) for who, call in asked]
                asked.clear()

    def stop(self, number: int) -> None:
        self._events.append((number, StopRequested()))
        self.run_until(lambda: number in self._stopped, "a stop")
        self._stopped.remove(number)
        self.kill(number)

    def ask(self, number: int, frame: bytes) -> None:
        """As a client with a connection of its own; the answer will be among `answers`."""
        connection = ConnectionId(len(self._asked) + 1)
        self._asked[number, connection] = deque([(_CLIENT, CallId(0))])
        self._events.append((number, ConnectionOpened(connection, "client")))
        self._events.append((number, FrameReceived(connection, memoryview(bytearray(frame[4:])))))

    def image(self, number: int) -> Image:
        return self.nodes[number].state.image

    def run_until(self, is_done: Callable[[], bool], what: str) -> None:
        for _ in range(MOST_STEPS):
            if is_done():
                return
            if self._events:
                number, event = self._events.popleft()
                if number in self.nodes:
                    self._step(number, event)
                elif isinstance(event, PeerAnswered) and number == _CLIENT:
                    self.answers.append(event.frame)
            else:
                self._pass_time()
        raise AssertionError(f"{what} did not come in {MOST_STEPS} steps")

    def _pass_time(self) -> None:
        deadlines = {n: node.next_deadline() for n, node in self.nodes.items()}
        due = min(at for at in deadlines.values() if at is not None)
        self._now_ms = max(self._now_ms, due)
        self._events += [
            (number, Tick()) for number, at in deadlines.items() if at is not None and at <= due
        ]

    def _step(self, number: int, event: Event) -> None:
        node = self.nodes[number]
        effects = node.step(self.now, event)
        node.validate()
        self._perform(number, effects)

    def _perform(self, number: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StartFlush):
                for target in effect.targets:
                    target.sync()
                self._events.append((number, FlushDone(effect.round, None)))
            elif isinstance(effect, CallPeer):
                self._call(number, effect)
            elif isinstance(effect, SendResponse):
                who, call = self._asked[number, effect.connection].popleft()
                frame = b"".join(
                    part.read() if isinstance(part, FileSpan) else bytes(part)
                    for part in effect.parts
                )
                self._events.append((who, PeerAnswered(call, memoryview(frame)[4:])))
            elif isinstance(effect, Stop):
                self._stopped.append(number)

    def _call(self, number: int, effect: CallPeer) -> None:
        there = effect.endpoint.port - FIRST_PORT
        if there not in self.nodes:
            self._events.append((number, PeerFailed(effect.call, "nobody is there")))
            return
        line = (number, effect.endpoint, effect.channel)
        if line not in self._lines:
            self._lines[line] = ConnectionId(len(self._asked) + 1)
            self._events.append((there, ConnectionOpened(self._lines[line], f"node-{number}")))
        connection = self._lines[line]
        self._asked.setdefault((there, connection), deque()).append((number, effect.call))
        frame = memoryview(bytearray(effect.frame[4:]))
        self._events.append((there, FrameReceived(connection, frame)))


def _endpoint(number: int) -> Endpoint:
    return Endpoint(HOST, FIRST_PORT + number)

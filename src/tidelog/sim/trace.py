"""What happened, in order: a hash of all of it, and the last of it in words.

The hash proves determinism: the same seed gives the same hash in every interpreter. It is fed with
what the node sees and asks for, never with `repr` of an object or the order of a set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from struct import Struct

from tidelog.broker.effects import (
    CallPeer,
    CloseConnection,
    Effect,
    ReadRange,
    Report,
    SendResponse,
    StartFlush,
)
from tidelog.broker.events import (
    Event,
    FlushDone,
    FrameReceived,
    PeerAnswered,
    PeerFailed,
    RangeRead,
)
from tidelog.wire.messages import API_BY_KEY
from tidelog.wire.requests import LENGTH_BYTES
from tidelog.zookeeper.requests import AskZooKeeper, ZooKeeperSpoke

LINES_KEPT = 400
_HASHED_TOGETHER = 64

_KEY_AND_VERSION = Struct(">hh")
_BYTES = (bytes, bytearray, memoryview)
"""A tuple, since a union in a call would be a new object every time."""


class Trace:
    """`say` is for the simulator's own acts; `event` and `effect` for the node's."""

    def __init__(self, now_ms: Callable[[], float], *, keep: int = LINES_KEPT) -> None:
        self._hash = blake2b(digest_size=16)
        self._now_ms = now_ms
        self._unhashed: list[str] = []
        self.lines: deque[str] = deque(maxlen=keep)

    def digest(self) -> str:
        self._hash_lines()
        return self._hash.hexdigest()

    def say(self, kind: str, text: str) -> None:
        self._add(f"{kind}: {text}")

    def event(self, event: Event) -> None:
        if isinstance(event, FrameReceived):
            self._hash.update(event.frame)
            self._add(f"-> {event.connection} {_request_name(event.frame)}")
        elif isinstance(event, FlushDone):
            outcome = "done" if event.error is None else f"failed: {event.error}"
            self._add(f"-> flush {event.round} {outcome}")
        elif isinstance(event, RangeRead):
            outcome = "done" if event.error is None else f"failed: {event.error}"
            self._add(f"-> read {event.number} {outcome}")
        elif isinstance(event, PeerAnswered):
            self._hash.update(event.frame)
            self._add(f"-> answer to call {event.call}, {len(event.frame)} bytes")
        elif isinstance(event, PeerFailed):
            self._add(f"-> call {event.call} failed: {event.reason}")
        elif isinstance(event, ZooKeeperSpoke):
            self._add(f"-> ZooKeeper: {event.word}")
        else:
            connection = getattr(event, "connection", "")
            self._add(f"-> {type(event).__name__} {connection}")

    def effect(self, effect: Effect) -> None:
        if isinstance(effect, SendResponse):
            size = 0
            for part in effect.parts:
                if isinstance(part, _BYTES):
                    self._hash.update(part)
                    size += len(part)
                else:
                    size += part.size
            self._add(f"<- {effect.connection} response of {size} bytes")
        elif isinstance(effect, StartFlush):
            paths = ", ".join(target.path for target in effect.targets)
            self._add(f"<- flush {effect.round}: {paths}")
        elif isinstance(effect, ReadRange):
            where = f"{effect.size} bytes of {effect.file.path} at {effect.position}"
            self._add(f"<- read {effect.number}: {where}")
        elif isinstance(effect, CloseConnection):
            self._add(f"<- close {effect.connection}: {effect.reason}")
        elif isinstance(effect, CallPeer):
            self._hash.update(effect.frame)
            name = _request_name(memoryview(effect.frame)[LENGTH_BYTES:])
            self._add(f"<- call {effect.call} to {effect.endpoint}: {name}")
        elif isinstance(effect, AskZooKeeper):
            self._add(f"<- ask ZooKeeper {effect.number}: {effect.request}")
        elif isinstance(effect, Report):
            self._add(f"<- {effect.level}: {effect.text}")
        else:
            self._add(f"<- {type(effect).__name__}")

    def _add(self, text: str) -> None:
        line = f"{self._now_ms():10.3f} {text}"
        self._unhashed.append(line)
        self.lines.append(line)
        if len(self._unhashed) == _HASHED_TOGETHER:
            self._hash_lines()

    def _hash_lines(self) -> None:
        self._hash.update("\n".join(self._unhashed).encode())
        self._unhashed.clear()


def _request_name(frame: memoryview) -> str:
    if len(frame) < 4:
        return f"{len(frame)} bytes"
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    api = API_BY_KEY.get(key)
    name = f"api {key}" if api is None else api.name
    return f"{name} v{version}, {len(frame)} bytes"

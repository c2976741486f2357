"""What can happen to a node. Past tense; made by `runtime` or `sim`, consumed by `Node.step`."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.log.disk import DiskError
from tidelog.model.ids import CallId, ConnectionId
from tidelog.zookeeper.requests import ZooKeeperSpoke

Frame = memoryview
"""One message, without its length prefix. (A name of its own also for the compiled build, which
finds a field's type among the module's names.)"""


@dataclass(slots=True, frozen=True)
class ConnectionOpened:
    """A client has connected. `peer` is for people: logs and `describe`."""

    connection: ConnectionId
    peer: str


@dataclass(slots=True, frozen=True)
class ConnectionClosed:
    """The client is gone, or the runtime gave it up. Nothing more can be sent to it."""

    connection: ConnectionId


@dataclass(slots=True)
class FrameReceived:
    """One whole request, without its length prefix.

    `frame` is writable and valid only during the step: the runtime reuses the memory after it.
    """

    connection: ConnectionId
    frame: Frame


@dataclass(slots=True, frozen=True)
class FlushDone:
    """The flush round is over: all of its targets are durable, or `error` says why not."""

    round: int
    error: DiskError | None = None


@dataclass(slots=True, frozen=True)
class RangeRead:
    """The range is in memory, for now; or `error` says why not. Nothing is known of what the bytes
    mean by now: whoever waited looks again."""

    number: int
    error: DiskError | None = None


@dataclass(slots=True, frozen=True)
class PeerAnswered:
    """Another node's response to a `CallPeer`, without its length prefix. `frame` is valid only
    during the step."""

    call: CallId
    frame: Frame


@dataclass(slots=True, frozen=True)
class PeerFailed:
    """No answer to a `CallPeer` will come: nobody knows whether it was carried out."""

    call: CallId
    reason: str


@dataclass(slots=True, frozen=True)
class Tick:
    """`next_deadline()` has passed."""


@dataclass(slots=True, frozen=True)
class StopRequested:
    """Finish cleanly: flush, mark the logs clean, then ask to be stopped."""


Event = (
    ConnectionOpened
    | ConnectionClosed
    | FrameReceived
    | FlushDone
    | RangeRead
    | PeerAnswered
    | PeerFailed
    | ZooKeeperSpoke
    | Tick
    | StopRequested
)

"""What a node may ask of the world. Imperative; carried out by `runtime` or `sim`, in order.

An effect that takes time comes back as an event: `StartFlush` as `FlushDone`, `ReadRange` as
`RangeRead`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidelog.log.disk import Buffer, File, FileSpan, Syncable
from tidelog.model.ids import CallId, ConnectionId, Endpoint
from tidelog.zookeeper.requests import AskZooKeeper

Part = Buffer | FileSpan

Channel = Literal["control", "quorum", "clients"] | tuple[Literal["forwarded"], int] | int
"""What the nodes talk about: decisions of the controller, the metadata log, what clients' requests
need of the controller, requests of clients that are forwarded whole (one at a time on each), and
partitions' records in as many lanes as their fetches have."""


@dataclass(slots=True)
class SendResponse:
    """Bytes and file ranges, one after the other, to the connection: a whole response frame."""

    connection: ConnectionId
    parts: list[Part]


@dataclass(slots=True, frozen=True)
class CloseConnection:
    """Send what is queued, then close."""

    connection: ConnectionId
    reason: str


@dataclass(slots=True, frozen=True)
class PauseReading:
    """Take no more requests from the connection until `ResumeReading`."""

    connection: ConnectionId


@dataclass(slots=True, frozen=True)
class ResumeReading:
    """The reverse of `PauseReading`."""

    connection: ConnectionId


@dataclass(slots=True, frozen=True)
class StartFlush:
    """Make all that was written to `targets` so far durable, then report `FlushDone(round)`.

    The node has at most one round under way; what arrives meanwhile shares the next (group commit).
    """

    round: int
    targets: tuple[Syncable, ...]


@dataclass(slots=True, frozen=True)
class ReadRange:
    """Have these bytes of the file in memory, then report `RangeRead(number)`: a read of them is
    not to wait for the disk any more. The range may reach beyond the file's end, and the file be
    deleted or cut meanwhile.

    The node has a few at most under way at a time.
    """

    number: int
    file: File
    position: int
    size: int


@dataclass(slots=True, frozen=True)
class CallPeer:
    """Send a request frame to another node; `PeerAnswered` or `PeerFailed` comes back.

    Each channel to a node is a connection of its own, opened when first needed: answers on one
    come in the order of its requests, so a fetch that waits for data holds nobody else up.
    """

    call: CallId
    endpoint: Endpoint
    channel: Channel
    frame: bytes


@dataclass(slots=True, frozen=True)
class HangUp:
    """Close the channel to a node. Calls still waiting on it fail."""

    endpoint: Endpoint
    channel: Channel


@dataclass(slots=True, frozen=True)
class Report:
    """A line for the operator's log."""

    level: Literal["info", "warning", "error"]
    text: str


@dataclass(slots=True, frozen=True)
class Announce:
    """Clients may come: a node that is alone says so at its start, a member once it is let in."""


@dataclass(slots=True, frozen=True)
class Stop:
    """The node is done. Without a `failure` its state is on disk, else the next start recovers."""

    failure: str | None = None


Effect = (
    SendResponse
    | CloseConnection
    | PauseReading
    | ResumeReading
    | StartFlush
    | ReadRange
    | CallPeer
    | HangUp
    | AskZooKeeper
    | Announce
    | Report
    | Stop
)

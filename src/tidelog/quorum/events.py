"""What happens to a replica (events, past), and what it wants done (effects, imperative)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum.messages import PeerRequest, PeerResponse, Request, Response
from tidelog.quorum.ports import SnapshotId

Ticket = NewType("Ticket", int)
"""Given by whoever hands in a request; comes back with its response."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    ticket: Ticket
    request: Request


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """To the request of that number. Of no interest any more: dropped."""

    number: int
    response: PeerResponse


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The connection was refused or lost; no answer will come."""

    number: int


@dataclass(frozen=True, slots=True)
class LogFlushed:
    """The flush that was asked for is done; `QuorumLog.durable_end_offset` says how far."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """`next_deadline` has passed."""


@dataclass(frozen=True, slots=True)
class ResignationWanted:
    """The node stops, or is told to hand over."""


Event = RequestReceived | ResponseReceived | RequestFailed | LogFlushed | Ticked | ResignationWanted


@dataclass(frozen=True, slots=True)
class SendRequest:
    number: int
    destination: NodeId
    request: PeerRequest


@dataclass(frozen=True, slots=True)
class SendResponse:
    ticket: Ticket
    response: Response


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Make the log durable as far as it goes, then say `LogFlushed`."""


@dataclass(frozen=True, slots=True)
class ApplyCommitted:
    """The state machine may read the log up to here."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """The state machine is to forget what it knows, and begin with `state`."""

    snapshot_id: SnapshotId
    state: bytes


@dataclass(frozen=True, slots=True)
class AnnounceLeader:
    """Who leads, as far as this replica knows."""

    leader_id: NodeId | None
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class TakeOffice:
    """This replica leads, and everything earlier leaders committed is committed here and announced
    by `ApplyCommitted`: the controller may begin to decide."""

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class LeaveOffice:
    """It leads no longer. What was proposed and not committed may or may not survive."""

    epoch: LeaderEpoch


Effect = (
    SendRequest
    | SendResponse
    | FlushLog
    | ApplyCommitted
    | LoadSnapshot
    | AnnounceLeader
    | TakeOffice
    | LeaveOffice
)

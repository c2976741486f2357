"""What replicas say to each other: one to one with Kafka's APIs, without the wrapping.

A request of Kafka names topics and partitions; there is one partition here, so a message is that
partition's part of it. `translation.py` knows the wire's form. Every response says which leader of
which epoch its sender knows, and that is how news of an election travels.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, LeaderEpoch, NodeId, Offset
from tidelog.quorum.batches import Batch
from tidelog.quorum.ports import EpochEnd, SnapshotId
from tidelog.quorum.voters import Endpoint, ReplicaKey


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Vote. `voter` is whom it is for; `last_offset` is the end of the asking replica's log. A
    pre-vote asks in the present epoch, and binds nobody."""

    voter: ReplicaKey
    replica: ReplicaKey
    epoch: LeaderEpoch
    last_epoch: LeaderEpoch
    last_offset: Offset
    pre_vote: bool
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class VoteResponse:
    error: ErrorCode
    leader_id: NodeId | None
    leader_epoch: LeaderEpoch
    is_granted: bool = False


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """A new leader makes itself known to those who did not elect it, too."""

    voter: ReplicaKey
    leader_id: NodeId
    epoch: LeaderEpoch
    endpoints: tuple[Endpoint, ...] = ()
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse:
    error: ErrorCode
    leader_id: NodeId | None
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """A leader resigns; `successors`, best first, need not wait for their timeouts."""

    leader_id: NodeId
    epoch: LeaderEpoch
    successors: tuple[ReplicaKey, ...] = ()
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse:
    error: ErrorCode
    leader_id: NodeId | None
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """All below `fetch_offset` is durable at the replica: a fetch is also an acknowledgement.
    `high_watermark` is the replica's: a leader that knows a higher one answers at once. `heard` is
    the number of the leader's last answer that came, 0 before the first."""

    replica: ReplicaKey
    epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    high_watermark: Offset
    max_wait_ms: int
    max_bytes: int
    cluster_id: str | None = None
    heard: int = 0


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Without an error either where the logs part (`diverging`), or that a snapshot must be fetched
    first, or batches; and a `number`, so that the leader learns which of its answers have come."""

    error: ErrorCode
    leader_id: NodeId | None
    leader_epoch: LeaderEpoch
    high_watermark: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    diverging: EpochEnd | None = None
    snapshot_id: SnapshotId | None = None
    batches: tuple[Batch, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    replica: ReplicaKey
    epoch: LeaderEpoch
    snapshot_id: SnapshotId
    position: int
    max_bytes: int
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    error: ErrorCode
    leader_id: NodeId | None
    leader_epoch: LeaderEpoch
    snapshot_id: SnapshotId
    size: int = 0
    position: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    pass


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """How far a replica is, as its leader knows. Times are monotonic; none: never, or itself."""

    replica: ReplicaKey
    log_end_offset: Offset
    last_fetch_ms: float | None
    last_caught_up_ms: float | None


@dataclass(frozen=True, slots=True)
class DescribeQuorumResponse:
    error: ErrorCode
    leader_id: NodeId | None
    leader_epoch: LeaderEpoch
    high_watermark: Offset = NO_OFFSET
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()
    endpoints: tuple[tuple[NodeId, tuple[Endpoint, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class AddRaftVoterRequest:
    """`ack_when_committed` false: answered when the change is in the leader's log."""

    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    timeout_ms: int
    ack_when_committed: bool = True
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class AddRaftVoterResponse:
    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveRaftVoterRequest:
    voter: ReplicaKey
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveRaftVoterResponse:
    error: ErrorCode
    message: str | None = None


PeerRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
)
"""What a replica asks of another."""

Request = PeerRequest | DescribeQuorumRequest | AddRaftVoterRequest | RemoveRaftVoterRequest

PeerResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
)

Response = PeerResponse | DescribeQuorumResponse | AddRaftVoterResponse | RemoveRaftVoterResponse

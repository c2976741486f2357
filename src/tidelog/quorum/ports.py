"""What the machine needs from outside: a log, and a place where its vote is safe.

Both are called synchronously, as the node's logs are. `VoteStore.save` and the snapshots are
durable when the call returns: they are rare and small (an fsync per election), and "no reply before
the vote is durable" then needs no waiting state in the machine. Appended records are many, so their
flush is an effect (`FlushLog`) and its end an event (`LogFlushed`); `durable_end_offset` says how
far it got. A port that can't do its work raises, and the node stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum.batches import Batch
from tidelog.quorum.voters import ReplicaKey

FIRST_EPOCH = LeaderEpoch(0)
"""Before any election. The first leader's is one more."""


class EpochEnd(NamedTuple):
    """An epoch, and the offset after its last record."""

    epoch: LeaderEpoch
    end_offset: Offset


class SnapshotId(NamedTuple):
    """A snapshot says all that the log said below `end_offset`; `epoch` wrote the last of it."""

    end_offset: Offset
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What a replica must never forget: the epoch, whom it voted for in it, and who leads it."""

    epoch: LeaderEpoch = FIRST_EPOCH
    voted: ReplicaKey | None = None
    leader_id: NodeId | None = None


class VoteStore(Protocol):
    """Where the election state is kept."""

    def load(self) -> ElectionState: ...

    def save(self, state: ElectionState) -> None:
        """Durable when it returns."""
        ...


class QuorumLog(Protocol):
    """The metadata log of one replica."""

    @property
    def start_offset(self) -> Offset:
        """Where the log begins: 0, or not after the end of its snapshot."""
        ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def durable_end_offset(self) -> Offset:
        """All below it survives a crash."""
        ...

    @property
    def last_epoch(self) -> LeaderEpoch:
        """Of the last record; of the snapshot if none follows it; `NO_EPOCH` if there is
        nothing."""
        ...

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """Of the record at `offset`, which is in the log."""
        ...

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd:
        """The largest epoch in the log not above the asked one, and where it ends. Below the first
        epoch of the log, any answer that ends at or before the log's start."""
        ...

    def append(self, batch: Batch) -> None:
        """At the end: `batch.base_offset` is `end_offset`, its epoch not below `last_epoch`."""
        ...

    def truncate_to(self, offset: Offset) -> None:
        """Cut so that the log ends at `offset`, or before the batch that holds it (an epoch that
        ends there in the leader's log may have gone on in ours). Durable when it returns."""
        ...

    def read(
        self, offset: Offset, *, max_bytes: int, limit_offset: Offset | None = None
    ) -> tuple[Batch, ...]:
        """Whole batches from the one at `offset` on; at least one if there is one below the
        limit."""
        ...

    @property
    def snapshot_id(self) -> SnapshotId | None:
        """Of the newest snapshot."""
        ...

    def snapshot_size(self, snapshot_id: SnapshotId) -> int | None:
        """None if there is no such snapshot any more."""
        ...

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes: ...

    def save_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Durable when it returns; then the log below `end_offset` may go, and its start moves
        there at once."""
        ...

    def install_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """In place of all the log holds: afterwards it is empty, and begins and ends there. Durable
        when it returns, all of it or nothing."""
        ...

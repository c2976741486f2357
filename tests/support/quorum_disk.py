"""The ports of the quorum in memory, with what a crash leaves of them."""

from __future__ import annotations

from random import Random

from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset
from tidelog.quorum.batches import Batch
from tidelog.quorum.ports import ElectionState, EpochEnd, SnapshotId


class MemoryVoteStore:
    """Durable at once."""

    def __init__(self) -> None:
        self.state = ElectionState()

    def load(self) -> ElectionState:
        return self.state

    def save(self, state: ElectionState) -> None:
        self.state = state


class MemoryLog:
    """A list of batches, of which those below `durable_end_offset` survive a crash."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.snapshot: tuple[SnapshotId, bytes] | None = None
        self.start_offset = Offset(0)
        self.end_offset = Offset(0)
        self.durable_end_offset = Offset(0)
        self.truncations: list[Offset] = []

    @property
    def last_epoch(self) -> LeaderEpoch:
        if self.batches:
            return self.batches[-1].epoch
        return NO_EPOCH if self.snapshot is None else self.snapshot[0].epoch

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        return self.batch_at(offset).epoch

    def batch_at(self, offset: Offset) -> Batch:
        return self.batches[self._index(offset)]

    def _index(self, offset: Offset) -> int:
        """Of the batch that holds the offset; after the last if there is none."""
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].next_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd:
        below = [batch for batch in self.batches if batch.epoch <= epoch]
        if not below:
            return EpochEnd(NO_EPOCH, self.start_offset)
        return EpochEnd(below[-1].epoch, below[-1].next_offset)

    def append(self, batch: Batch) -> None:
        assert batch.base_offset == self.end_offset, "a gap in the log"
        assert batch.epoch >= self.last_epoch, "epochs go back"
        self.batches.append(batch)
        self.end_offset = batch.next_offset

    def truncate_to(self, offset: Offset) -> None:
        self._keep([batch for batch in self.batches if batch.next_offset <= offset])
        self.durable_end_offset = Offset(min(self.durable_end_offset, self.end_offset))
        self.truncations.append(self.end_offset)

    def _keep(self, batches: list[Batch]) -> None:
        self.batches = batches
        self.end_offset = batches[-1].next_offset if batches else self.start_offset

    def read(
        self, offset: Offset, *, max_bytes: int, limit_offset: Offset | None = None
    ) -> tuple[Batch, ...]:
        limit = self.end_offset if limit_offset is None else limit_offset
        found: list[Batch] = []
        size = 0
        for batch in self.batches[self._index(offset) :]:
            if batch.base_offset >= limit or (found and size + batch.size > max_bytes):
                break
            found.append(batch)
            size += batch.size
        return tuple(found)

    @property
    def snapshot_id(self) -> SnapshotId | None:
        return None if self.snapshot is None else self.snapshot[0]

    def snapshot_size(self, snapshot_id: SnapshotId) -> int | None:
        if self.snapshot is None or self.snapshot[0] != snapshot_id:
            return None
        return len(self.snapshot[1])

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        assert self.snapshot is not None
        assert self.snapshot[0] == snapshot_id
        return self.snapshot[1][position : position + max_bytes]

    def save_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        self.snapshot = (snapshot_id, data)
        end = snapshot_id.end_offset
        self.batches = [batch for batch in self.batches if batch.next_offset > end]
        self.start_offset = end
        self.end_offset = Offset(max(self.end_offset, end))
        self.durable_end_offset = Offset(max(self.durable_end_offset, end))

    def install_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        self.snapshot = (snapshot_id, data)
        self.batches = []
        self.start_offset = snapshot_id.end_offset
        self.end_offset = self.durable_end_offset = snapshot_id.end_offset

    # What happens to it from outside.

    def flushed(self, end_offset: Offset) -> None:
        """All below was synced. It may have been cut meanwhile."""
        reached = min(end_offset, self.end_offset)
        self.durable_end_offset = Offset(max(self.durable_end_offset, reached))

    def crash(self, random: Random) -> None:
        """The power fails: of what was not synced any first part survives."""
        loose = [b for b in self.batches if b.base_offset >= self.durable_end_offset]
        kept = random.randint(0, len(loose)) if random.random() < 0.3 else 0
        self._keep(self.batches[: len(self.batches) - len(loose) + kept])
        self.durable_end_offset = self.end_offset

    def holds_durably(self, batch: Batch) -> bool:
        """In the log or below its snapshot."""
        if batch.next_offset <= self.start_offset:
            return True
        if batch.next_offset > self.durable_end_offset:
            return False
        return self.batch_at(batch.base_offset) == batch

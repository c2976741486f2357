"""The safeguards that tests may switch off, to prove that the simulator would notice.

Production code asks `Safeguard.X in safeguards`; only `sim` and tests ever build a set without
one. Each member's comment is the bug that its absence lets in.
"""

from __future__ import annotations

from enum import Enum, auto


class Safeguard(Enum):
    """One protection each. Off = ablated."""

    FLUSH_BEFORE_ACK = auto()  # acknowledged records vanish at a power failure
    PRODUCER_STATE_RESTORE = auto()  # a retry after a restart is appended twice
    DEDUPE_WINDOW = auto()  # a retry after a lost response is appended twice
    DIRECTORY_SYNC = auto()  # a flushed file's name is gone after a power failure
    CRC_ON_FETCH = auto()  # damaged bytes are served
    TORN_TAIL_CUT = auto()  # half a batch stays readable after a crash
    QUARANTINE_DAMAGE = auto()  # damage below the flushed mark is "repaired" by truncation
    KEEP_ORPHANS = auto()  # data is deleted because metadata did not name it
    FSYNC_ERROR_IS_FATAL = auto()  # a retried fsync "succeeds" after pages were dropped
    START_DURABLE_BEFORE_DELETE = auto()  # a crash takes back a log start that clients were told
    CLEAN_SYNC_BEFORE_SWAP = auto()  # compacted records vanish at a power failure
    TOMBSTONE_RETENTION = auto()  # a slow reader never sees that a key was deleted
    GENERATION_FENCE = auto()  # a member that was given up overwrites its successor's offsets
    BROKER_EPOCH = auto()  # a node that lost data joins an ISR on what its former life had fetched
    ELIGIBLE_LEADERS = auto()  # the last replica standing restarts with less, and is elected
    CLEAN_MARK = auto()  # a node back from a crash counts as having everything it had


ALL_SAFEGUARDS: frozenset[Safeguard] = frozenset(Safeguard)

CLUSTER_SAFEGUARDS: frozenset[Safeguard] = frozenset(
    (Safeguard.BROKER_EPOCH, Safeguard.ELIGIBLE_LEADERS, Safeguard.CLEAN_MARK)
)
"""Those whose absence one node alone can't suffer from."""

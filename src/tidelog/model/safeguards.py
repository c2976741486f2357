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
    FLUSHES_NOTED = auto()  # damage to what was flushed since the last mark is cut off as torn
    KEEP_ORPHANS = auto()  # data is deleted because metadata did not name it
    FSYNC_ERROR_IS_FATAL = auto()  # a retried fsync "succeeds" after pages were dropped
    START_DURABLE_BEFORE_DELETE = auto()  # a crash takes back a log start that clients were told
    CLEAN_SYNC_BEFORE_SWAP = auto()  # compacted records vanish at a power failure
    TOMBSTONE_RETENTION = auto()  # a slow reader never sees that a key was deleted
    COMMIT_BEFORE_ANSWER = auto()  # a coordinator tells what a power failure takes back
    STEADY_CLOCK = auto()  # a clock that jumps ahead deletes what is young
    LIVE_GROUPS_REMEMBER = auto()  # a clock that jumps takes the offsets of a group at work
    GENERATION_FENCE = auto()  # a member that was given up overwrites its successor's offsets
    REQUESTS_IN_ORDER = auto()  # a read overtakes the write ahead of it on its connection
    BROKER_EPOCH = auto()  # a node that lost data joins an ISR on what its former life had fetched
    ELIGIBLE_LEADERS = auto()  # the last replica standing restarts with less, and is elected
    UNCLEAN_BY_LOG = auto()  # an unclean election takes an empty replica where another has records
    CLEAN_MARK = auto()  # a node back from a crash counts as having everything it had
    CUT_TAIL_TOLD = auto()  # a node whose recovery cut committed batches is elected
    ACK_AFTER_REPLICATION = auto()  # an acknowledged record is on the leader's disk alone
    MAXIMAL_ISR = auto()  # a member that was only proposed is elected without what was committed
    EPOCH_IN_FETCH = auto()  # a follower goes on behind records that its leader never had
    TRUNCATE_BY_EPOCH = auto()  # a follower cuts committed records that it does not know to be so
    EXPAND_AFTER_EPOCH_START = auto()  # a new leader counts somebody in on a watermark of old
    FETCH_IN_EPOCH = auto()  # a replica is counted in on what it had in another life
    PRESENT_BEFORE_FOLLOWING = auto()  # a node follows who led long ago, and cuts what came since
    PRESENT_BEFORE_SERVING = auto()  # a node that restarts tells clients what was true before
    LOG_START_REPLICATED = auto()  # deleted records come back with the next leader
    VOTE_DURABLE = auto()  # a voter votes twice in one epoch: two controllers of one epoch
    OWN_EPOCH_FIRST = auto()  # an old epoch's record, committed by count alone, is overwritten


ALL_SAFEGUARDS: frozenset[Safeguard] = frozenset(Safeguard)

QUORUM_SAFEGUARDS = (Safeguard.VOTE_DURABLE, Safeguard.OWN_EPOCH_FIRST)
"""Those of the metadata log's consensus."""

CLUSTER_SAFEGUARDS: frozenset[Safeguard] = frozenset(
    (
        Safeguard.BROKER_EPOCH,
        Safeguard.ELIGIBLE_LEADERS,
        Safeguard.UNCLEAN_BY_LOG,
        Safeguard.CLEAN_MARK,
        Safeguard.CUT_TAIL_TOLD,
        Safeguard.FLUSHES_NOTED,
        Safeguard.ACK_AFTER_REPLICATION,
        Safeguard.MAXIMAL_ISR,
        Safeguard.EPOCH_IN_FETCH,
        Safeguard.TRUNCATE_BY_EPOCH,
        Safeguard.EXPAND_AFTER_EPOCH_START,
        Safeguard.FETCH_IN_EPOCH,
        Safeguard.PRESENT_BEFORE_FOLLOWING,
        Safeguard.PRESENT_BEFORE_SERVING,
        Safeguard.LOG_START_REPLICATED,
        *QUORUM_SAFEGUARDS,
    )
)
"""Those whose absence one node alone can't suffer from, or would not show: it has no other copy."""

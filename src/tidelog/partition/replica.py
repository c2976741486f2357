"""One partition on this node: its log, and its role as the metadata image says.

    offline ──► leader(epoch)      the image names us, in an epoch that we may lead in
       ▲ ▲────► follower(epoch)    the image names somebody else
       └─────── any new leader epoch ends the role, and begins the next

A role belongs to one leader epoch. When it ends, whoever waits for it finds it ended and is told
so; what was known of the watermark goes on to the next role. An image of an older leader epoch than
ours changes nothing.

After a crash a node must not lead on in an epoch that it led before: of the records it gave out
then, some may be lost here and alive elsewhere, and their offsets would be given out a second time
in the same epoch. `crashed_in` is that epoch; there the replica stays offline until the controller
has begun another.
"""

from __future__ import annotations

from tidelog.log.disk import FileSpan
from tidelog.log.log import Appended, FlushTicket, Log
from tidelog.metadata.image import PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_EPOCH,
    NO_NODE,
    NO_OFFSET,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionKey,
    TopicPartition,
)
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import TopicSettings
from tidelog.partition.follower import Follower
from tidelog.partition.leader import Leader
from tidelog.partition.membership import Membership
from tidelog.partition.throttle import is_listed


class Replica:
    """The same object through all roles. At most one of `leader` and `follower` is there."""

    __slots__ = (
        "_crashed_in",
        "_former",
        "_known_watermark",
        "_membership",
        "_reported",
        "_safeguards",
        "_settings",
        "follower",
        "is_gone",
        "is_internal",
        "key",
        "leader",
        "log",
        "name",
        "state",
    )

    def __init__(
        self,
        state: PartitionState,
        log: Log,
        settings: TopicSettings,
        membership: Membership,
        *,
        now_ms: float,
        crashed_in: LeaderEpoch = NO_EPOCH,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    ) -> None:
        self.key: PartitionKey = state.key
        self.name: TopicPartition = state.name
        self.state = state
        self.log = log
        self.is_gone = False
        self.is_internal = state.name.topic.startswith("__")
        self.leader: Leader | None = None
        self.follower: Follower | None = None
        self._former: Leader | None = None
        self._membership = membership
        self._settings = settings
        self._safeguards = safeguards
        self._crashed_in = crashed_in
        self._known_watermark = NO_OFFSET
        self._reported = 0
        self._take_role(now_ms)

    # --- roles --------------------------------------------------------------------------------

    def follow(self, state: PartitionState, now_ms: float) -> bool:
        """The image says `state`. Whether the role is another one now, or the watermark moved."""
        before = self.state
        if state.leader_epoch < before.leader_epoch or self.is_gone:
            return False
        self.state = state
        if (state.leader_epoch, state.leader) != (before.leader_epoch, before.leader):
            self._take_role(now_ms)
            return True
        if self.leader is not None:
            self.leader.follow(state, now_ms)
            return True  # who waits may have to be told that too few are in sync
        if self.follower is not None:
            self.follower.follow(state)
        return False

    def is_throttled_for(self, node_id: NodeId) -> bool:
        """That node's copy is in the making, and the topic says that we give to those slowly."""
        if self.leader is None or node_id in self.leader.isr.maximal:
            return False
        return is_listed(
            self._settings.leader_replication_throttled_replicas,
            self.key.partition,
            self._membership.node_id,
        )

    def _take_role(self, now_ms: float) -> None:
        state, me = self.state, self._membership.node_id
        self.stopped()
        may_lead = self._membership.may_lead and state.leader_epoch > self._crashed_in
        if state.leader == me and may_lead:
            self.became_leader(now_ms)
        elif state.leader not in (me, NO_NODE) and me in state.replicas:
            self.became_follower()

    def was_let_in(self, now_ms: float) -> bool:
        """The node may lead from now on. Whether this replica does."""
        if self.state.leader == self._membership.node_id and self.leader is None:
            self._take_role(now_ms)
        return self.leader is not None

    def became_leader(self, now_ms: float) -> None:
        self.leader = Leader(
            self.state,
            self.log,
            self._settings,
            self._membership,
            now_ms=now_ms,
            high_watermark=self._known_watermark,
            former=self._former,
            safeguards=self._safeguards,
        )

    def became_follower(self) -> None:
        self.follower = Follower(
            self.state,
            self.log,
            self._settings,
            self._membership,
            high_watermark=self._known_watermark,
            safeguards=self._safeguards,
        )

    def stopped(self, reason: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """The end of the role, whatever it was."""
        if self.leader is not None:
            self._known_watermark = self.leader.high_watermark
            self.leader.end(reason)
            self._former, self.leader = self.leader, None
        if self.follower is not None:
            self._known_watermark = self.follower.known_watermark
            self.follower.end()
            self.follower = None

    def removed(self, reason: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """The partition is no longer kept here, by a committed record."""
        self.is_gone = True
        self.stopped(reason)

    def configure(self, settings: TopicSettings) -> None:
        self._settings = settings
        self.log.configure(settings)
        if self.leader is not None:
            self.leader.configure(settings)
        if self.follower is not None:
            self.follower.configure(settings)

    # --- what requests ask --------------------------------------------------------------------

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.state.leader_epoch

    @property
    def high_watermark(self) -> Offset:
        """Below it all is committed, as far as this node knows."""
        if self.leader is not None:
            return self.leader.high_watermark
        if self.follower is not None:
            return self.follower.high_watermark
        known = min(self._known_watermark, self.log.log_end_offset)
        return max(known, self.log.log_start_offset)

    @property
    def is_proven(self) -> bool:
        """Readers may be told the watermark."""
        if self.leader is not None:
            return self.leader.is_proven
        return self.follower is not None and self.follower.knows_watermark

    @property
    def waits_for_flush(self) -> bool:
        if self.leader is not None:
            return self.leader.waits_for_flush
        return self.follower is None or self.follower.waits_for_flush

    @property
    def has_followers(self) -> bool:
        return self.leader is not None and self.leader.has_followers

    def check_epoch(self, asked: LeaderEpoch) -> ErrorCode:
        """Who names the leader epoch it believes in must name the one we know."""
        epoch = self.state.leader_epoch
        if asked in (NO_EPOCH, epoch):
            return ErrorCode.NONE
        is_old = asked < epoch
        return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH

    def append(self, records: memoryview, now_ms: int) -> Appended:
        if self.leader is None:
            return Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.leader.append(records, now_ms)

    def read(
        self, offset: Offset, *, max_bytes: int, at_least_one: bool
    ) -> FileSpan | ErrorCode | None:
        """Committed batches, from the leader or, for readers nearby, from a follower."""
        if self.leader is not None:
            return self.leader.read(offset, max_bytes=max_bytes, at_least_one=at_least_one)
        if self.follower is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        limit = self.follower.high_watermark
        if offset >= limit:  # we may merely be late: the leader knows better
            is_next = offset == limit and self.follower.knows_watermark
            return None if is_next else ErrorCode.OFFSET_NOT_AVAILABLE
        found = self.log.read(
            offset, max_bytes=max_bytes, limit_offset=limit, at_least_one=at_least_one
        )
        # What is unreadable here is not so with the leader.
        is_damaged = found is ErrorCode.CORRUPT_MESSAGE
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_damaged else found

    # --- flushing -----------------------------------------------------------------------------

    def flush_ticket(self) -> FlushTicket | None:
        return self.log.flush_targets()

    def flushed(self, ticket: FlushTicket) -> None:
        self.log.flushed(ticket)
        if self.leader is not None:
            self.leader.flushed()
        elif self.follower is not None:
            self.follower.flushed()

    def close_cleanly(self) -> None:
        """Flush, and say so for the next start; what waited for the flush counts now."""
        self.log.close_cleanly()
        if self.leader is not None:
            self.leader.flushed()

    # --- looking at it ------------------------------------------------------------------------

    def take_reports(self) -> list[str]:
        """What the log found out about itself since the last call, and what the follower did."""
        news = self.log.damage[self._reported :]
        self._reported += len(news)
        reports = [f"{self.name}: {damage}" for damage in news]
        if news:
            self.look_for_damage()
        if self.follower is not None:
            reports += self.follower.reports
            self.follower.reports = []
        return reports

    def look_for_damage(self) -> None:
        """The log may have found something out about itself: a leader is to resign, a follower to
        fetch from there, so that it does not count as in sync."""
        if self.leader is not None:
            self.leader.look_for_damage()
        if self.follower is not None:
            self.follower.look_for_damage()

    def validate(self) -> None:
        assert self.leader is None or self.follower is None
        assert self.high_watermark <= self.log.log_end_offset
        if self.leader is not None:
            assert self.leader.ended is None
            self.leader.validate()
        if self.follower is not None:
            self.follower.validate()
        self.log.validate()

    def describe(self) -> dict[str, object]:
        role = self.leader or self.follower
        name = "leader" if self.leader else "follower" if self.follower else "offline"
        return {
            "partition": str(self.name),
            "role": name,
            "leader_epoch": self.leader_epoch,
            "high_watermark": self.high_watermark,
            "log": self.log.describe(),
            **({} if role is None else role.describe()),
        }

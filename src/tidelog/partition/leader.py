"""The leader of one partition for one leader epoch: appends, the high watermark, reads below it.

The **high watermark** is the smallest *durable* end among all who are, or may have become, members
of the in-sync set (`isr.maximal`): our own flushed end (under `flush.policy=os` the end of the log,
as in Kafka), and each follower's fetch offset, since a follower fetches only from what is durable
with it. So what is acknowledged with acks=all has survived an fsync on every member; with one
replica it is our own flushed end, and nothing else is asked. It never falls, and it rests

- while fewer than `min.insync.replicas` are in sync (KIP-966): the last one standing could be lost;
- while the node has no session: others may lead by now.

A new leader knows a watermark that may be behind the true one. Until its own has reached the offset
where its epoch begins (`is_proven`) it tells clients none, and takes nobody into the in-sync set.
The one exception: with too few in sync the watermark can't get there, so who has all from before
the epoch may come in and end that.

A leadership ends (`end`) and never comes back: the next epoch, also of the same node, is another
`Leader`, which has to hear from every follower anew.

A leader that a reassignment takes away is in sync until it has fetched from its successor, and so
knows that it leads no more; then it is let go, and with that the reassignment is complete.

A leader that finds its log **damaged**, or its disk **full**, resigns as soon as somebody else is
in sync: it proposes a set without itself, and repairs its log, or waits for room, as a follower.
Until then nobody is told that records are unreadable for good, because they are not. With too few
in sync, a follower that stops at the damage can't come in; if it is eligible (KIP-966) it has all
that is committed, so after `replica.lag.time.max.ms` a damaged leader proposes it in its place.
"""

from __future__ import annotations

from tidelog.log.disk import DiskFull, FileSpan
from tidelog.log.log import Appended, Log
from tidelog.metadata.image import PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, NodeId, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import TopicSettings
from tidelog.partition.divergence import EpochEnd, find_divergence, is_forgotten, is_uncertain
from tidelog.partition.isr import Isr, Member, ProposeIsr
from tidelog.partition.membership import UNKNOWN_BROKER_EPOCH, Membership
from tidelog.partition.progress import FollowerFetch, LastFetch, Progress, furthest_with

ARRIVAL_MS = 1_000
"""So long the watermark waits for the next fetch of a follower that is about to be in sync."""


class Leader:
    """Everything a request may do to a partition that is led here goes through this."""

    __slots__ = (
        "_counts_proposed",
        "_departing",
        "_membership",
        "_min_isr",
        "_now_ms",
        "_safeguards",
        "_waits_for_all",
        "cannot_write",
        "damaged_from",
        "ended",
        "epoch_start_offset",
        "has_enough_replicas",
        "has_followers",
        "high_watermark",
        "is_internal",
        "isr",
        "key",
        "leader_epoch",
        "log",
        "name",
        "progress",
        "replicas",
        "waits_for_flush",
    )

    def __init__(
        self,
        state: PartitionState,
        log: Log,
        settings: TopicSettings,
        membership: Membership,
        *,
        now_ms: float,
        high_watermark: Offset = NO_OFFSET,
        former: Leader | None = None,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    ) -> None:
        """`high_watermark` is what was known before; `former` our last leadership, if any."""
        self.key = state.key
        self.name = state.name
        self.leader_epoch = state.leader_epoch
        self.log = log
        self.ended: ErrorCode | None = None
        """Why this leadership is over: what everybody is told who still waits for it."""
        self.is_internal = state.name.topic.startswith("__")
        self._membership = membership
        self._safeguards = safeguards
        self._now_ms = now_ms
        self._waits_for_all = Safeguard.ACK_AFTER_REPLICATION in safeguards
        self._counts_proposed = Safeguard.MAXIMAL_ISR in safeguards
        self.epoch_start_offset = log.log_end_offset
        known = min(high_watermark, log.log_end_offset)
        self.high_watermark = max(known, log.log_start_offset)
        self.isr = Isr(state)
        self.progress: dict[NodeId, Progress] = {}
        if former is not None and Safeguard.FETCH_IN_EPOCH not in safeguards:
            self.progress = former.progress
        self.has_followers = False
        self.has_enough_replicas = False
        """No fewer in sync than `min.insync.replicas`, of which no more than all count."""
        self._min_isr = settings.min_insync_replicas
        self.damaged_from: Offset | None = None
        """Where the log can't be read: others are to lead, if there are any."""
        self.cannot_write = False
        """The disk was full at the last append: the same."""
        self._follow(state, now_ms)
        self.look_for_damage()
        self.waits_for_flush = self._flushes_first(settings)
        """Records wait for a flush before they count."""
        self._advance()

    # --- what it obeys ------------------------------------------------------------------------

    def configure(self, settings: TopicSettings) -> None:
        """New settings, while the partition is in use. From `os` to `ack` the watermark stays until
        the flushed end has caught up: clients have seen what lies below it."""
        self.waits_for_flush = self._flushes_first(settings)
        self._min_isr = settings.min_insync_replicas
        self._count_replicas()
        self._advance()

    def follow(self, state: PartitionState, now_ms: float) -> bool:
        """The image has changed within our epoch. Whether the watermark moved."""
        assert state.leader_epoch == self.leader_epoch
        self.isr.follow(state)
        self._follow(state, now_ms)
        return self._advance()

    def _follow(self, state: PartitionState, now_ms: float) -> None:
        self.replicas = state.replicas
        kept = [node for node in state.replicas if node not in state.removing_replicas]
        is_moved = all(node in state.isr for node in kept)
        self._departing = state.removing_replicas if is_moved else ()
        others = [node for node in state.replicas if node != self._membership.node_id]
        self.has_followers = bool(others)
        self._count_replicas()
        if Safeguard.FETCH_IN_EPOCH in self._safeguards:
            for node in [node for node in self.progress if node not in others]:
                del self.progress[node]
        for node in others:
            if node not in self.progress:
                self.progress[node] = Progress(node, now_ms=now_ms)

    def _count_replicas(self) -> None:
        needed = min(self._min_isr, len(self.replicas))
        self.has_enough_replicas = len(self.isr.committed) >= needed

    def end(self, reason: ErrorCode) -> None:
        self.ended = reason

    def _flushes_first(self, settings: TopicSettings) -> bool:
        return settings.flush_policy == "ack" and Safeguard.FLUSH_BEFORE_ACK in self._safeguards

    # --- the watermark ------------------------------------------------------------------------

    @property
    def durable_end_offset(self) -> Offset:
        """What counts as ours: all below it survives, as far as the flush policy promises."""
        return self.log.flushed_offset if self.waits_for_flush else self.log.log_end_offset

    @property
    def is_proven(self) -> bool:
        """All that an earlier leader may have shown lies below our watermark."""
        return self.high_watermark >= self.epoch_start_offset

    @property
    def knows_end(self) -> bool:
        """Nobody else can have shown more. Who has asked to be replaced may be so already, and be
        the last to hear of it."""
        asked, membership = self.isr.in_flight, self._membership
        is_resigning = asked is not None and membership.node_id not in asked.nodes
        return self.is_proven and not is_resigning and not membership.is_leaving

    @property
    def low_watermark(self) -> Offset:
        """Where the log begins with every member of the in-sync set."""
        start = self.log.log_start_offset
        if Safeguard.LOG_START_REPLICATED in self._safeguards:
            for node in self.isr.maximal:
                if node in self.progress:
                    start = min(start, self.progress[node].log_start_offset)
        return start

    def has_let_go(self, offset: Offset) -> bool:
        """What lies below `offset` is gone for good: whoever may be elected begins there or later.
        With too few in sync that may be somebody who has left."""
        return self.has_enough_replicas and self.low_watermark >= offset

    def is_acknowledged(self, last_offset: Offset, *, by_all: bool) -> bool:
        """A record counts for its producer: with all in sync, or with us alone (acks=1)."""
        if by_all and self._waits_for_all:
            return self.high_watermark > last_offset
        if self.ended is not None or not self._membership.has_session:
            return False
        log = self.log
        end = log.flushed_offset if self.waits_for_flush else log.log_end_offset
        return end > last_offset

    def _advance(self) -> bool:
        """Move the watermark as far as it may. Whether it moved."""
        if self.ended is not None or not self._membership.has_session:
            return False
        log = self.log
        end = log.flushed_offset if self.waits_for_flush else log.log_end_offset
        if self.has_followers:
            if not self.has_enough_replicas:
                return False
            for node in self.isr.maximal if self._counts_proposed else self.isr.committed:
                if node != self._membership.node_id:
                    known = self.progress.get(node)
                    end = min(end, NO_OFFSET if known is None else known.fetch_offset)
            if len(self.isr.maximal) < len(self.replicas):
                end = min(end, self._arrivals_end())
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    def _arrivals_end(self) -> Offset:
        """How far the watermark may go without running away from who is about to be in sync. Under
        steady load it moves with every flush of the others, and somebody who is one flush behind
        would never be found to have all that is committed."""
        ends = [max(known.fetch_offset, self.high_watermark) for known in self._arriving()]
        return min(ends, default=self.log.log_end_offset)

    def _arriving(self) -> list[Progress]:
        """Who is about to be in sync, and was heard of a moment ago."""
        return [
            known
            for node, known in self.progress.items()
            if known.is_close
            and node not in self.isr.maximal
            and self._now_ms - known.fetched_ms <= min(ARRIVAL_MS, self._lag_ms)
            and self._membership.may_be_in_sync(node, known.broker_epoch)
        ]

    # --- appending ----------------------------------------------------------------------------

    def check_epoch(self, asked: LeaderEpoch) -> ErrorCode:
        """A client that names the epoch it believes in must name ours."""
        if asked == NO_EPOCH or asked == self.leader_epoch:
            return ErrorCode.NONE
        if asked < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def may_acknowledge(self) -> bool:
        return self.ended is None and self._membership.has_session

    def append(self, records: memoryview, now_ms: int) -> Appended:
        """Write whole batches, stamped in place. What was appended counts only below
        `high_watermark`. `DiskFull` or `DiskError` if the disk says no."""
        if self.ended is not None or not self._membership.has_session:
            return Appended(self.ended or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            if not self._membership.has_room:
                self._membership.check_room()
            appended = self.log.append(
                records,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                awaits_repair=self.damaged_from is not None and self._may_be_repaired(),
            )
        except DiskFull:
            self.cannot_write = True
            raise
        self.cannot_write = False
        if not self.waits_for_flush:
            self._advance()
        return appended

    def _may_be_repaired(self) -> bool:
        """Another replica may have what damage hides from us, and lead next: all that is known not
        to have got beyond the damage have not."""
        at = self.damaged_from
        assert at is not None
        return any(not 0 <= known.fetch_offset <= at for known in self.progress.values())

    def flushed(self) -> bool:
        """The log has been flushed. Whether the watermark moved."""
        return self._advance()

    def session_changed(self) -> bool:
        return self._advance()

    # --- reading ------------------------------------------------------------------------------

    def read(
        self, offset: Offset, *, max_bytes: int, at_least_one: bool
    ) -> FileSpan | ErrorCode | None:
        """Committed batches from the one containing `offset` on; None if there are none yet."""
        watermark = self.high_watermark
        if offset >= watermark:
            if offset > self.log.log_end_offset:
                # Without a session others may lead by now, and have what we lack.
                is_sure = self._membership.has_session
                no_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
                return ErrorCode.OFFSET_OUT_OF_RANGE if is_sure else no_leader
            return None if self.is_proven else ErrorCode.OFFSET_NOT_AVAILABLE
        found = self.log.read(
            offset, max_bytes=max_bytes, limit_offset=watermark, at_least_one=at_least_one
        )
        return self._unreadable() if found is ErrorCode.CORRUPT_MESSAGE else found

    def _unreadable(self) -> ErrorCode:
        """A client that hears of a failing disk asks who leads, and again there; one that hears of
        a corrupt message gives up."""
        self.look_for_damage()
        has_others = bool(self._successors() or self._eligible())
        return ErrorCode.KAFKA_STORAGE_ERROR if has_others else ErrorCode.CORRUPT_MESSAGE

    def look_for_damage(self) -> None:
        """The log may have found something out about itself."""
        if self.has_followers:
            self.damaged_from = self.log.first_damaged_offset()

    def read_to_end(
        self, offset: Offset, *, max_bytes: int, at_least_one: bool
    ) -> FileSpan | ErrorCode | None:
        """For followers: also what is not committed yet, else it never would be; and what
        compaction has emptied, since their logs have no holes."""
        found = self.log.read(
            offset,
            max_bytes=max_bytes,
            limit_offset=self.log.log_end_offset,
            at_least_one=at_least_one,
            skips_empty=False,
        )
        if found is ErrorCode.CORRUPT_MESSAGE:
            self.look_for_damage()
        return found

    def choose_read_replica(self, rack: str, offset: Offset) -> NodeId | None:
        """A member of the in-sync set that is nearer to a reader in `rack` than we are, and has
        what the reader asks for (KIP-392)."""
        nodes = self._membership
        if not (rack and self.has_followers and nodes.settings.selects_by_rack):
            return None
        if nodes.rack_of(nodes.node_id) == rack:
            return None
        near = [node for node in self.isr.committed if nodes.rack_of(node) == rack]
        return furthest_with(offset, (self.progress[n] for n in near if n in self.progress))

    # --- followers ----------------------------------------------------------------------------

    def check_fetch(self, fetch: FollowerFetch) -> ErrorCode | EpochEnd | None:
        """What is wrong with a follower's fetch, or where its log parts from ours; None if it may
        have what it asks for."""
        known = self.progress.get(fetch.node_id)
        if known is None or fetch.node_id not in self.replicas or self.ended is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if UNKNOWN_BROKER_EPOCH < fetch.broker_epoch < known.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if Safeguard.EPOCH_IN_FETCH in self._safeguards:
            if fetch.leader_epoch == NO_EPOCH:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
            error = self.check_epoch(fetch.leader_epoch)
            if error is not ErrorCode.NONE:
                return error
            at = fetch.fetch_offset
            diverging = find_divergence(self.log, epoch=fetch.last_fetched_epoch, offset=at)
            if diverging is not None:
                return self._unless_uncertain(fetch.last_fetched_epoch, diverging)
        if not self.log.log_start_offset <= fetch.fetch_offset <= self.log.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if is_forgotten(self.log, epoch=fetch.last_fetched_epoch, offset=fetch.fetch_offset):
            return self._unless_it_is_ours(fetch)
        return None

    def _unless_it_is_ours(self, fetch: FollowerFetch) -> ErrorCode | None:
        """All that it has was deleted here, and with it the epochs that could tell whether it is
        the same. It is, if it has fetched from us before, or may be elected: that one has only what
        was committed below our start. Any other starts over there: the next leader's log may begin
        earlier, and would take it in sync with whatever it kept. While its registration is news to
        us it may be either."""
        known = self.progress[fetch.node_id]
        if known.fetch_offset != NO_OFFSET and known.broker_epoch == fetch.broker_epoch:
            return None
        if not self._is_counted_on(fetch.node_id):
            return ErrorCode.OFFSET_OUT_OF_RANGE
        is_registered = self._membership.may_be_in_sync(fetch.node_id, fetch.broker_epoch)
        return None if is_registered else ErrorCode.BROKER_ID_NOT_REGISTERED

    def _is_counted_on(self, node_id: NodeId) -> bool:
        """It may be elected."""
        return node_id in self.isr.maximal or node_id in self.isr.eligible

    def _unless_uncertain(self, epoch: LeaderEpoch, diverging: EpochEnd) -> EpochEnd | ErrorCode:
        """Nobody is told to cut by an epoch that may have begun where our log can't be read."""
        if self.damaged_from is not None and is_uncertain(
            self.log, epoch=epoch, diverging=diverging
        ):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return diverging

    def note_fetch(self, fetch: FollowerFetch, now_ms: float) -> bool:
        """A fetch that `check_fetch` found good. Whether somebody may have waited for it: the high
        watermark moved, or the low one."""
        known = self.progress[fetch.node_id]
        self._now_ms = now_ms
        has_let_go = known.log_start_offset != fetch.log_start_offset
        known.note(
            fetch.fetch_offset,
            leader_end=self.log.log_end_offset,
            now_ms=now_ms,
            broker_epoch=fetch.broker_epoch,
            log_start_offset=fetch.log_start_offset,
            session=fetch.session,
        )
        return self._advance() or has_let_go

    def has_to_note(self, node_id: NodeId, session: LastFetch) -> bool:
        """The next fetch of the session is to be noted even if it has nothing else to say: another
        has spoken for the follower since, or the watermark rests for a moment, for somebody who is
        about to be in sync."""
        known = self.progress.get(node_id)
        if known is None or known.session is not session:
            return True
        return self.high_watermark < self.log.log_end_offset and bool(self._arriving())

    def fell_silent(self, node_id: NodeId, session: LastFetch) -> None:
        """A session of the follower has forgotten the partition, or says what can't be so."""
        known = self.progress.get(node_id)
        if known is not None:
            known.fell_silent(session)

    def withholds(self, node_id: NodeId, fetch_offset: Offset) -> bool:
        """It is counted on for what it had, may be elected, and has found some of what is committed
        to be damaged since: it gets nothing to mend its log with before it counts no more, so that
        it does not cut away the rest while it does. Its own image may be older than ours."""
        known = self.progress.get(node_id)
        if known is None or not self._is_counted_on(node_id):
            return False
        return fetch_offset < min(known.most_fetched, self.high_watermark)

    def has_news_for(self, node_id: NodeId) -> bool:
        """The follower does not know our watermark or our log's start yet."""
        known = self.progress.get(node_id)
        return known is not None and (
            known.told_high_watermark != self.high_watermark
            or known.told_log_start_offset != self.log.log_start_offset
        )

    def told(self, node_id: NodeId) -> None:
        known = self.progress.get(node_id)
        if known is not None:
            known.told_high_watermark = self.high_watermark
            known.told_log_start_offset = self.log.log_start_offset

    # --- the in-sync set ----------------------------------------------------------------------

    def propose(self, now_ms: float) -> ProposeIsr | None:
        """The change of the in-sync set to ask the controller for now, if there is one."""
        if not (self.has_followers and self.may_acknowledge):
            return None
        lost = self.isr.again(now_ms)
        if lost is not None:
            return lost
        if not self.isr.may_propose(now_ms):
            return None
        wanted = tuple(node for node in self.replicas if self._is_wanted(node, now_ms))
        if self.damaged_from is not None:
            self.look_for_damage()  # it may have been deleted since
        if self.damaged_from is not None or self.cannot_write:
            in_sync = tuple(node for node in wanted if node in self._successors())
            wanted = in_sync or self._heirs(wanted, now_ms) or wanted
        if not self.isr.uncertain and sorted(wanted) == sorted(self.isr.committed):
            return None
        members = tuple(Member(node, self._broker_epoch_of(node)) for node in wanted)
        return self.isr.propose(self.key, self.leader_epoch, members)

    def _successors(self) -> tuple[NodeId, ...]:
        """Who may lead in our place: in sync for the controller, too."""
        return tuple(
            node
            for node, known in self.progress.items()
            if node in self.isr.committed
            and self._membership.may_be_in_sync(node, known.broker_epoch)
        )

    def _eligible(self) -> tuple[NodeId, ...]:
        """Who may lead in our place though out of sync, in the order of the replicas."""
        if self.has_enough_replicas:
            return ()
        return tuple(
            node
            for node, known in self.progress.items()
            if node in self.isr.eligible
            and self._membership.may_be_in_sync(node, known.broker_epoch)
        )

    def _heirs(self, wanted: tuple[NodeId, ...], now_ms: float) -> tuple[NodeId, ...]:
        """The one eligible follower that leads in our place, if our log is damaged and nobody can
        be taken in sync: whoever still gets what we have is waited for."""
        if self.damaged_from is None or any(node not in self.isr.committed for node in wanted):
            return ()
        late = [
            node
            for node in self._eligible()
            if now_ms - self.progress[node].caught_up_ms > self._lag_ms
        ]
        return tuple(late[:1])

    def isr_answered(self, proposal: ProposeIsr, error: ErrorCode, now_ms: float) -> bool:
        """The controller's word; `NETWORK_EXCEPTION` if none came. Whether the watermark moved."""
        self.isr.answered(proposal, error, now_ms)
        return self._advance()

    def _is_wanted(self, node: NodeId, now_ms: float) -> bool:
        known = self.progress.get(node)
        if known is None:
            return node == self._membership.node_id
        if node in self._departing and known.fetch_offset != NO_OFFSET:
            return False
        if node in self.isr.committed:
            return not self._is_out_of_sync(known, now_ms)
        return self._may_join(known, now_ms)

    def _is_out_of_sync(self, known: Progress, now_ms: float) -> bool:
        """It has less than is committed, so it has lost something; or it was not caught up for
        `replica.lag.time.max.ms`."""
        if NO_OFFSET < known.fetch_offset < self.high_watermark:
            return True
        is_late = now_ms - known.caught_up_ms > self._lag_ms
        return is_late and known.fetch_offset != self.log.log_end_offset

    def _may_join(self, known: Progress, now_ms: float) -> bool:
        """It has fetched in this epoch, has all that is committed and all from before the epoch,
        and nothing that was deleted. Who is not heard of any more was just sent away for that: it
        would come and go until its session ends."""
        offset = known.fetch_offset
        if offset == NO_OFFSET or offset < self.high_watermark:
            return False
        if now_ms - known.fetched_ms > self._lag_ms:
            return False
        if (
            known.log_start_offset < self.log.log_start_offset
            and Safeguard.LOG_START_REPLICATED in self._safeguards
        ):
            return False
        if Safeguard.EXPAND_AFTER_EPOCH_START in self._safeguards:
            is_known = self.is_proven or not self.has_enough_replicas
            if offset < self.epoch_start_offset or not is_known:
                return False
        return self._membership.may_be_in_sync(known.node_id, known.broker_epoch)

    @property
    def _lag_ms(self) -> int:
        return self._membership.settings.lag_time_max_ms

    def _broker_epoch_of(self, node: NodeId) -> int:
        known = self.progress.get(node)
        return self._membership.broker_epoch if known is None else known.broker_epoch

    def next_deadline(self, now_ms: float) -> float | None:
        """When `propose` may have something to say without anything happening before."""
        if not self.has_followers or self.ended is not None:
            return None
        deadlines = [self.isr.next_deadline()]
        lag_ms = self._lag_ms
        for node in self.isr.committed if self.isr.in_flight is None else ():
            known = self.progress.get(node)
            if known is not None and known.fetch_offset != self.log.log_end_offset:
                deadlines.append(known.caught_up_ms + lag_ms + 1)
        return min((at for at in deadlines if at is not None and at > now_ms), default=None)

    # --- looking at it ------------------------------------------------------------------------

    def validate(self) -> None:
        """I12: the watermark never leaves the log, nor what the in-sync set has."""
        assert self.log.log_start_offset <= self.high_watermark <= self.log.log_end_offset
        assert len(set(self.isr.maximal)) == len(self.isr.maximal)

    def describe(self) -> dict[str, object]:
        return {
            "isr": list(self.isr.committed),
            "proposed": None if self.isr.in_flight is None else list(self.isr.in_flight.nodes),
            "damaged_from": self.damaged_from,
            "epoch_start_offset": self.epoch_start_offset,
            "is_proven": self.is_proven,
            "followers": [
                known.describe(self.log.log_end_offset) for known in self.progress.values()
            ],
        }

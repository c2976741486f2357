"""One partition that is followed: what to fetch next, and what to do with the answer.

The rules, each against a loss somebody has had:

- A fetch names an offset only if all below it is **durable** here, because the leader counts it as
  such. So after an append the next fetch waits for the flush.
- A fetch always carries the leader epoch it believes in and the epoch of the last record it has. If
  the leader's log parts from ours it says where, by epoch and end offset, and there we
  **truncate**; never to a watermark, which may be behind the truth.
- Batches are appended as they come, with their offsets and epochs, and only at the end of the log.
- The leader's watermark and log start are taken over; the watermark is never told to readers beyond
  what is durable here.
- A log that ends before the leader's begins starts anew there; so does one that ends just where
  the leader's begins, if the leader says so. Nothing else makes it start anew.
- A log with **damage** fetches from where the damage is. The leader sees a member with less than is
  committed and has it taken out of the in-sync set; only then is the damaged rest cut and fetched
  again, so that at no time somebody who lacks committed records may be elected.
"""

from __future__ import annotations

from math import inf

from tidelog.log.disk import DiskFull
from tidelog.log.log import Log
from tidelog.metadata.image import PartitionState
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset, PartitionKey
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import TopicSettings
from tidelog.partition.divergence import EpochEnd, choose_truncation
from tidelog.partition.membership import Membership, pause_ms
from tidelog.partition.throttle import is_listed
from tidelog.wire.batch import HEADER_BYTES, read_header
from tidelog.wire.messages.fetch import FetchPartition, PartitionData


class Follower:
    """One partition's following of one leader in one leader epoch."""

    __slots__ = (
        "_failures",
        "_is_flushed_first",
        "_is_in_sync",
        "_is_listed",
        "_is_trusted",
        "_leader_watermark",
        "_membership",
        "_safeguards",
        "_waits_for_room",
        "changed_in",
        "damaged_from",
        "ended",
        "has_moved",
        "has_written",
        "key",
        "leader_epoch",
        "log",
        "name",
        "ready_ms",
        "reports",
        "source",
        "trouble",
    )

    def __init__(
        self,
        state: PartitionState,
        log: Log,
        settings: TopicSettings,
        membership: Membership,
        *,
        high_watermark: Offset = NO_OFFSET,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    ) -> None:
        self.key = state.key
        self.name = state.name
        self.leader_epoch = state.leader_epoch
        self.source = state.leader
        self.log = log
        self.ended = False
        self.changed_in: dict[PartitionKey, Follower] = {}
        """Its fetcher's list of those that may have something else to say than before."""
        self._failures = 0
        self.ready_ms = -inf
        """Not to be fetched before."""
        self.trouble: ErrorCode | None = None
        """The last answer's error: why it waits."""
        self._waits_for_room = False
        self.reports: list[str] = []
        self.has_written = self.has_moved = False
        """Since somebody last asked: something is to be flushed; the watermark moved."""
        self._membership = membership
        self._safeguards = safeguards
        self._leader_watermark = high_watermark
        self.configure(settings)
        self.follow(state)
        self.damaged_from = log.first_damaged_offset()
        if Safeguard.TRUNCATE_BY_EPOCH not in safeguards:
            self._cut(max(Offset(self._leader_watermark), log.log_start_offset))

    def configure(self, settings: TopicSettings) -> None:
        self._has_changed()
        is_asked = settings.flush_policy == "ack"
        self._is_flushed_first = is_asked and Safeguard.FLUSH_BEFORE_ACK in self._safeguards
        self._is_listed = is_listed(
            settings.follower_replication_throttled_replicas,
            self.key.partition,
            self._membership.node_id,
        )

    def follow(self, state: PartitionState) -> None:
        """The image has changed within the leader's epoch."""
        self._is_in_sync = self._membership.node_id in state.isr
        self._is_trusted = self._is_in_sync or self._membership.node_id in state.elr
        self._has_changed()

    def end(self) -> None:
        self.ended = True

    def flushed(self) -> None:
        """The log has been flushed: more may be asked for."""
        self._has_changed()

    def _has_changed(self) -> None:
        """What its next fetch says, or when that may be, may be another than before."""
        self.changed_in[self.key] = self
        self._membership.may_fetch_from[self.source] = None

    # --- what it has --------------------------------------------------------------------------

    @property
    def waits_for_flush(self) -> bool:
        return self._is_flushed_first

    @property
    def durable_end_offset(self) -> Offset:
        return self.log.flushed_offset if self._is_flushed_first else self.log.log_end_offset

    @property
    def is_settled(self) -> bool:
        """All that it has is durable, so it may ask for more."""
        return self.durable_end_offset == self.log.log_end_offset

    @property
    def is_throttled(self) -> bool:
        """It is a copy in the making, and the topic says that those shall take their time."""
        return self._is_listed and not self._is_in_sync

    @property
    def records_behind(self) -> int:
        """What is committed and not here, as far as the leader has told."""
        return max(0, self._leader_watermark - self.log.log_end_offset)

    @property
    def knows_watermark(self) -> bool:
        return self._leader_watermark != NO_OFFSET

    @property
    def high_watermark(self) -> Offset:
        """What readers here may see: committed, and durable here too."""
        known = min(self._leader_watermark, self.durable_end_offset)
        return max(known, self.log.log_start_offset)

    @property
    def known_watermark(self) -> Offset:
        """The leader's word, as far as our log reaches: what the next leader here starts with."""
        return min(self._leader_watermark, self.log.log_end_offset)

    @property
    def position(self) -> Offset:
        """Where to fetch from."""
        if self.damaged_from is not None:
            return min(self.damaged_from, self.durable_end_offset)
        return self.durable_end_offset

    def look_for_damage(self) -> None:
        """The log has found something out about itself."""
        self.damaged_from = self.log.first_damaged_offset()
        self._has_changed()

    # --- asking -------------------------------------------------------------------------------

    def fetch(self) -> FetchPartition:
        """The next fetch, as part of a request."""
        position = self.position
        epoch, last_epoch = self.leader_epoch, NO_EPOCH
        if position > self.log.log_start_offset:
            last_epoch = self.log.epochs.epoch_of(position - 1)
        if Safeguard.EPOCH_IN_FETCH not in self._safeguards:
            epoch = last_epoch = NO_EPOCH
        return FetchPartition(
            partition=self.key.partition,
            current_leader_epoch=epoch,
            fetch_offset=position,
            last_fetched_epoch=last_epoch,
            log_start_offset=self.log.log_start_offset,
            partition_max_bytes=self._membership.settings.fetch_max_bytes,
            high_watermark=self._leader_watermark,
        )

    # --- the answer ---------------------------------------------------------------------------

    def take(self, now: Now, data: PartitionData, *, asked: Offset) -> None:
        """The answer to a fetch at `asked`. `DiskError` if the disk failed. On a full one it keeps
        its place and asks again later: what could not be written, cut or begun is as it was."""
        if self.ended or asked != self.position:
            return  # to an older fetch, or of an older epoch
        self.trouble = None
        try:
            self._take(now, data)
        except DiskFull:
            self.has_written = True
            self._wait_for_room(now)

    def _take(self, now: Now, data: PartitionData) -> None:
        if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE and self._starts_over(data):
            return
        if data.error_code is not ErrorCode.NONE:
            self._pause(now, data.error_code)
            return
        if data.diverging_epoch.epoch >= 0:
            at = data.diverging_epoch
            self._truncate(now, EpochEnd(LeaderEpoch(at.epoch), Offset(at.end_offset)))
            return
        if self.damaged_from is not None and not self._may_repair(
            now, has_records=bool(data.records)
        ):
            return
        if not self._append(now, data):
            return
        self._failures = 0
        self._take_watermark(data)
        self._take_log_start(data)

    def _pause(self, now: Now, trouble: ErrorCode) -> None:
        """Until metadata brings a new epoch, which makes a new follower; or for a while."""
        self.trouble = trouble
        self._failures += 1
        self.ready_ms = now.monotonic_ms + pause_ms(self._failures, self._membership.settings)

    def _wait_for_room(self, now: Now) -> None:
        """Said once, however often it finds none."""
        if not self._waits_for_room:
            self._waits_for_room = True
            self.reports.append(f"{self.name}: the disk is full: waits for room")
        self._pause(now, ErrorCode.KAFKA_STORAGE_ERROR)

    def _append(self, now: Now, data: PartitionData) -> bool:
        """Whether all that came is here now."""
        records = data.records
        if not isinstance(records, bytes | bytearray | memoryview) or not records:
            return True
        self._membership.check_room()
        self._make_room_for(memoryview(records))
        appended = self.log.append_replicated(
            memoryview(records), leader_epoch=self.leader_epoch, now_ms=now.wall_ms
        )
        if appended.error is ErrorCode.NONE:
            self.has_written = True
            self._waits_for_room = False
            return True
        self._pause(now, appended.error)
        self.reports.append(
            f"{self.name}: node {self.source} sent records that do not fit at offset "
            f"{self.log.log_end_offset}: {appended.error.name}"
        )
        return False

    def _make_room_for(self, records: memoryview) -> None:
        """The leader's log may begin in the middle of a batch. An empty log that was to begin there
        begins with the batch; its start follows the leader's like any other."""
        if self.log.log_start_offset != self.log.log_end_offset or len(records) < HEADER_BYTES:
            return
        header = read_header(records)
        if header.base_offset < self.log.log_end_offset <= header.last_offset:
            self.log.start_at(Offset(header.base_offset))

    def _take_watermark(self, data: PartitionData) -> None:
        if data.high_watermark >= 0 and data.high_watermark != self._leader_watermark:
            self._leader_watermark = Offset(data.high_watermark)
            self.has_moved = True

    def _take_log_start(self, data: PartitionData) -> None:
        if Safeguard.LOG_START_REPLICATED not in self._safeguards:
            return
        start = min(Offset(data.log_start_offset), self.log.log_end_offset)
        if start > self.log.log_start_offset:
            self.log.advance_start(start)
            self.has_written = True

    def _starts_over(self, data: PartitionData) -> bool:
        """The leader begins at our end or after it: what we have is gone with it. An empty log has
        nothing to lose wherever it stands."""
        start = Offset(data.log_start_offset)
        is_empty = self.log.log_start_offset == self.log.log_end_offset
        is_gone = start != self.position if is_empty else start >= self.position
        if start < 0 or not is_gone:
            return False
        self.reports.append(
            f"{self.name}: the log ends at {self.log.log_end_offset} and node {self.source}'s "
            f"begins at {start}: starting over there"
        )
        self.log.start_at(start)
        self.damaged_from = None
        return True

    # --- cutting ------------------------------------------------------------------------------

    def _truncate(self, now: Now, diverging: EpochEnd) -> None:
        offset = choose_truncation(self.log, diverging)
        if offset >= self.position:
            self._pause(now, ErrorCode.UNKNOWN_SERVER_ERROR)
            self.reports.append(
                f"{self.name}: node {self.source} says our log diverges from its own in epoch "
                f"{diverging.epoch} at {diverging.end_offset}, where we have nothing"
            )
            return
        if offset < self.known_watermark:
            self.reports.append(
                f"{self.name}: COMMITTED RECORDS ARE LOST: node {self.source} of epoch "
                f"{self.leader_epoch} has our log only up to {offset}, and up to "
                f"{self.known_watermark} it was committed"
            )
        self._cut(offset)
        self._leader_watermark = min(self._leader_watermark, self.log.log_end_offset)

    def _cut(self, offset: Offset) -> None:
        self.log.truncate_to(offset)
        self.damaged_from = self.log.first_damaged_offset()
        self.has_written = True

    def _may_repair(self, now: Now, *, has_records: bool) -> bool:
        """Cut the damaged rest, once nobody relies on it any more: neither the image here nor the
        leader, which has nothing for us while it does (`Leader.withholds`)."""
        assert self.damaged_from is not None
        if self._is_trusted:
            self._membership.awaiting_repair[self.key] = None
            self._pause(now, ErrorCode.CORRUPT_MESSAGE)
            return False
        if not has_records:
            return False
        self.reports.append(
            f"{self.name}: damaged at offset {self.damaged_from}: fetched again from there, from "
            f"node {self.source}"
        )
        asked = self.damaged_from
        self._cut(asked)
        return self.log.log_end_offset == asked

    # --- looking at it ------------------------------------------------------------------------

    def validate(self) -> None:
        assert self.durable_end_offset <= self.log.log_end_offset
        assert self.log.epochs.latest <= self.leader_epoch, "it follows somebody of the past"

    def describe(self) -> dict[str, object]:
        return {
            "follows": self.source,
            "damaged_from": self.damaged_from,
            "trouble": None if self.trouble is None else self.trouble.name,
        }

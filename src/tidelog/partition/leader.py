"""The leader of one partition: appends, the high watermark, and reads below it.

The rule for the watermark, with one replica: under `flush.policy=ack` it is the flushed end of the
log. So nobody ever sees a record that a power failure could take back, and an offset never gets
another value. Under `os` it is the end of the log, as in Kafka.
"""

from __future__ import annotations

from tidelog.log.disk import FileSpan
from tidelog.log.log import Appended, FlushTicket, Log
from tidelog.metadata.image import PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset, PartitionKey, TopicPartition
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import TopicSettings


class Leader:
    """Everything a request may do to a partition goes through here."""

    __slots__ = (
        "_is_flushed_first",
        "_reported",
        "_safeguards",
        "_watermark_floor",
        "is_gone",
        "is_internal",
        "key",
        "leader_epoch",
        "log",
        "name",
    )

    def __init__(
        self,
        state: PartitionState,
        log: Log,
        settings: TopicSettings,
        *,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    ) -> None:
        self.key: PartitionKey = state.key
        self.name: TopicPartition = state.name
        self.leader_epoch: LeaderEpoch = state.leader_epoch
        self.log = log
        self.is_gone = False
        self.is_internal = state.name.topic.startswith("__")
        self._reported = 0
        self._safeguards = safeguards
        self._watermark_floor = Offset(0)
        self._is_flushed_first = self._flushes_first(settings)

    def configure(self, settings: TopicSettings) -> None:
        """New settings, while the partition is in use.

        From `os` to `ack` the watermark must not fall back to what is flushed: clients have seen
        what lies above. It stays until the flushed end has caught up.
        """
        self._watermark_floor = self.high_watermark
        self._is_flushed_first = self._flushes_first(settings)
        self.log.configure(settings)

    def _flushes_first(self, settings: TopicSettings) -> bool:
        return settings.flush_policy == "ack" and Safeguard.FLUSH_BEFORE_ACK in self._safeguards

    @property
    def high_watermark(self) -> Offset:
        if self._is_flushed_first:
            return max(self.log.flushed_offset, self._watermark_floor)
        return self.log.log_end_offset

    @property
    def waits_for_flush(self) -> bool:
        """Records wait for a flush before they count."""
        return self._is_flushed_first

    def check_epoch(self, asked: LeaderEpoch) -> ErrorCode:
        """A client that names the epoch it believes in must name ours."""
        if asked == NO_EPOCH or asked == self.leader_epoch:
            return ErrorCode.NONE
        if asked < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def append(self, records: memoryview, now_ms: int) -> Appended:
        """Write whole batches, stamped in place. What was appended counts only below
        `high_watermark`. `DiskFull` or `DiskError` if the disk says no."""
        return self.log.append(records, leader_epoch=self.leader_epoch, now_ms=now_ms)

    def read(
        self, offset: Offset, *, max_bytes: int, at_least_one: bool
    ) -> FileSpan | ErrorCode | None:
        """Committed batches from the one containing `offset` on; None if there are none yet."""
        watermark = self.high_watermark
        if offset >= watermark:
            is_known = offset <= self.log.log_end_offset
            return None if is_known else ErrorCode.OFFSET_OUT_OF_RANGE
        return self.log.read(
            offset, max_bytes=max_bytes, limit_offset=watermark, at_least_one=at_least_one
        )

    def flush_ticket(self) -> FlushTicket | None:
        return self.log.flush_targets()

    def flushed(self, ticket: FlushTicket) -> None:
        self.log.flushed(ticket)

    def take_reports(self) -> list[str]:
        """What the log found out about itself since the last call."""
        news = self.log.damage[self._reported :]
        self._reported += len(news)
        return [f"{self.name}: {damage}" for damage in news]

    def validate(self) -> None:
        """The watermark never leaves the log (I12)."""
        assert self.log.log_start_offset <= self.high_watermark <= self.log.log_end_offset
        self.log.validate()

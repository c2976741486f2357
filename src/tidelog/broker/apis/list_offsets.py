"""ListOffsets: the ends of a log, and the first record at or after a time.

Never past the high watermark: a record that may still vanish has no offset yet. A leader that
does not know how far that is (`Leader.knows_end`) answers OFFSET_NOT_AVAILABLE, and one that may
have been replaced answers nothing: an end once told never falls. A follower may ask for the end of
the log itself. With no tiered storage, "earliest local" is the log's start and nothing is tiered. A
partition named twice is refused, as Kafka does: a look-up by time opens a batch, and must not be
had by the thousand.

A request with Kafka's replica id for looking into a log (-2) is answered by any replica, for its
own log: where it ends and the leader epoch of its last record, or, read committed, how far it
knows the log to be committed. So a controller learns what the replicas of a partition without a
leader have. One that has not heard of the leader epoch that is asked for may still be following
another leader, and says UNKNOWN_LEADER_EPOCH.

A look-up by time reads the indexes of every segment from the first on. What of them is not in
memory is read as an effect (`broker/reading.py`), and the whole request is answered afresh after
that; what takes longer than `READ_PATIENCE_MS` is REQUEST_TIMED_OUT, and the client asks again.
"""

from __future__ import annotations

from collections import Counter

from tidelog.broker.pending import Wait
from tidelog.broker.reading import ColdReads
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.log.disk import DiskError, NotInMemory
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch
from tidelog.partition.leader import Leader
from tidelog.wire.messages.list_offsets import (
    DEBUGGING_REPLICA,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_LATEST_TIERED = -5
_EARLIEST_PENDING_UPLOAD = -6
_READ_COMMITTED = 1


READ_PATIENCE_MS = 10_000.0
"""Well below the 30 s after which clients believe that nobody is there."""


def handle(
    state: BrokerState, call: Call, request: ListOffsetsRequest
) -> ListOffsetsResponse | Sentinel:
    look_up = _LookUp(state, request)
    response = look_up.answer()
    if look_up.cold is None or not look_up.is_cold:
        return response
    deadline_ms = call.now.monotonic_ms + READ_PATIENCE_MS
    wait = LookUpWait(look_up)
    look_up.cold.row = state.pending.park_on_reads(call.slot, wait, deadline_ms=deadline_ms)
    return PARKED


class LookUpWait(Wait):
    """Indexes, or the batches that they lead to, are being read."""

    __slots__ = ("_look_up",)

    def __init__(self, look_up: _LookUp) -> None:
        self._look_up = look_up

    def resume(self, now: Now, *, is_expired: bool) -> ListOffsetsResponse | None:
        look_up = self._look_up
        assert look_up.cold is not None
        if look_up.cold.awaited and not is_expired:
            return None  # all partitions are looked at again, so not after each range
        response = look_up.answer()
        if look_up.is_cold and not is_expired:
            return None
        look_up.cold.let_go()
        return response

    def describe(self) -> str:
        cold = self._look_up.cold
        assert cold is not None
        return f"ListOffsets waits for {', '.join(map(str, cold.awaited.values()))} to be read"

    def abandoned(self, number: int) -> None:
        assert self._look_up.cold is not None
        self._look_up.cold.let_go()


class _LookUp:
    """One request, answered afresh each time something was read for it."""

    def __init__(self, state: BrokerState, request: ListOffsetsRequest) -> None:
        self.state = state
        self.request = request
        self.cold: ColdReads | None = None
        self.is_cold = False
        """Something that the last answer needed is not in memory."""
        self._times_named = Counter(
            (topic.name, asked.partition_index)
            for topic in request.topics
            for asked in topic.partitions
        )

    def answer(self) -> ListOffsetsResponse:
        self.is_cold = False
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[self._answer(topic.name, asked) for asked in topic.partitions],
                )
                for topic in self.request.topics
            ]
        )

    def _answer(self, topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        if self._times_named[topic, asked.partition_index] > 1:
            return _refused(asked)
        return _answer(self, topic, asked)

    def find(self, leader: Leader, timestamp: int, answer: ListOffsetsPartitionResponse) -> None:
        """In the log of the partition. Reads that would block do not."""
        disk = self.state.reads.disk
        disk.reads_may_block = self.state.reads.is_over
        try:
            _look_up(leader, timestamp, answer)
        except NotInMemory as missing:
            self._have_read(leader, timestamp, answer, missing)
        except DiskError:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        finally:
            disk.reads_may_block = True

    def _have_read(
        self,
        leader: Leader,
        timestamp: int,
        answer: ListOffsetsPartitionResponse,
        missing: NotInMemory,
    ) -> None:
        cold = self.cold = self.cold or ColdReads(self.state.reads)
        is_hopeless = cold.is_hopeless(missing)
        if not is_hopeless and not cold.has_failed(missing):
            cold.wait_for(missing)
            self.is_cold = True
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            return
        if not is_hopeless:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return
        self.state.reads.disk.reads_may_block = True
        try:
            _look_up(leader, timestamp, answer)
        except DiskError:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR


def _refused(asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=ErrorCode.INVALID_REQUEST
    )


def _answer(
    look_up: _LookUp, topic: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    state, request = look_up.state, look_up.request
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    if request.replica_id == DEBUGGING_REPLICA and asked.timestamp == LATEST_TIMESTAMP:
        is_committed = request.isolation_level == _READ_COMMITTED
        _look_into_log(state, topic, asked, answer, is_committed=is_committed)
        return answer
    leader = state.replicas.find_leader(topic, asked.partition_index)
    if isinstance(leader, ErrorCode):
        answer.error_code = leader
        return answer
    answer.error_code = leader.check_epoch(LeaderEpoch(asked.current_leader_epoch))
    if answer.error_code is not ErrorCode.NONE:
        return answer
    if not leader.may_acknowledge:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return answer
    if request.replica_id >= 0 and asked.timestamp == LATEST_TIMESTAMP:
        answer.offset, answer.leader_epoch = leader.log.log_end_offset, leader.leader_epoch
    else:
        look_up.find(leader, asked.timestamp, answer)
    return answer


def _look_into_log(
    state: BrokerState,
    topic: str,
    asked: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    *,
    is_committed: bool,
) -> None:
    """Whatever role the replica has."""
    replica = state.replicas.find(topic, asked.partition_index)
    if isinstance(replica, ErrorCode):
        answer.error_code = replica
    elif replica.state.leader_epoch < asked.current_leader_epoch:
        answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    else:
        log = replica.log
        answer.offset = replica.high_watermark if is_committed else log.log_end_offset
        answer.leader_epoch = log.epochs.latest


def _look_up(leader: Leader, timestamp: int, answer: ListOffsetsPartitionResponse) -> None:
    is_known = leader.knows_end
    if timestamp == LATEST_TIMESTAMP and not is_known:
        answer.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
    elif timestamp == LATEST_TIMESTAMP:
        answer.offset, answer.leader_epoch = leader.high_watermark, leader.leader_epoch
    elif timestamp in (_EARLIEST, _EARLIEST_LOCAL, _EARLIEST_PENDING_UPLOAD):
        answer.offset, answer.leader_epoch = leader.log.log_start_offset, leader.leader_epoch
    elif timestamp == _LATEST_TIERED:
        answer.leader_epoch = leader.leader_epoch
    elif timestamp < _EARLIEST_PENDING_UPLOAD:
        answer.error_code = ErrorCode.INVALID_REQUEST
    else:
        is_by_time = timestamp != _MAX_TIMESTAMP
        found = (
            leader.log.offset_for_timestamp(timestamp) if is_by_time else leader.log.max_timestamp()
        )
        if found is not None and found.offset < leader.high_watermark:
            answer.offset = found.offset
            answer.timestamp = found.timestamp
            answer.leader_epoch = found.leader_epoch
        elif not is_known:
            answer.error_code = ErrorCode.OFFSET_NOT_AVAILABLE

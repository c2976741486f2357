"""Produce: append batches, answer when they count.

Each partition is appended at once, on its own; the response waits until all of it counts: with
acks=all until it is committed, so durable with every replica in sync; with acks=1 until it is
durable here. With fewer than `min.insync.replicas` acks=all is refused before anything is appended;
if the others are lost later, the answer says that it was appended. A duplicate of a remembered
batch is answered with that batch's offset, and waits for it like the original. An error carries
offset -1.

Versions 0 to 2 are advertised because old librdkafka needs to see them (KAFKA-18659), and refused:
they carry message formats that have no place in a v2 log.
"""

from __future__ import annotations

from tidelog.broker.current_leader import WRONG_LEADER, endpoints_of, leader_now
from tidelog.broker.pending import Wait
from tidelog.broker.refused_batches import Refused
from tidelog.broker.state import CLOSE, NO_RESPONSE, PARKED, BrokerState, Call, Sentinel
from tidelog.log.disk import DiskError, DiskFull
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER, Offset, PartitionKey, TopicId
from tidelog.partition.leader import Leader
from tidelog.partition.replica import Replica
from tidelog.wire.batch import MAGIC, read_header
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_ACKS_NONE = 0
_ACKS_LEADER = 1
_ACKS_ALL = -1

Uncommitted = tuple[Leader, Offset, PartitionProduceResponse]


class ProduceWait(Wait):
    """Appended, not yet committed. `uncommitted`: what still has to be, up to which offset; with
    acks=1 (not `by_all`) only here."""

    __slots__ = ("_by_all", "_response", "_state", "_uncommitted")

    def __init__(
        self,
        state: BrokerState,
        response: ProduceResponse,
        uncommitted: list[Uncommitted],
        *,
        by_all: bool,
    ) -> None:
        self._state = state
        self._by_all = by_all
        self._response = response
        self._uncommitted = uncommitted

    def resume(self, now: Now, *, is_expired: bool) -> ProduceResponse | None:
        left: list[Uncommitted] = []
        for waiting in self._uncommitted:
            leader, last_offset, answer = waiting
            if leader.is_acknowledged(last_offset, by_all=self._by_all):
                continue
            if leader.ended is not None:
                _refuse(answer, leader.ended)
                _name_leader(self._state, self._response, answer, leader)
            elif self._state.node_is_read_only:
                _refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR)
            elif self._by_all and not leader.has_enough_replicas:
                _refuse(answer, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            elif is_expired:
                _refuse(answer, ErrorCode.REQUEST_TIMED_OUT)
            else:
                left.append(waiting)
        self._uncommitted = left
        return None if left else self._response

    def describe(self) -> str:
        names = ", ".join(f"{leader.name} past {last}" for leader, last, _ in self._uncommitted)
        return f"Produce waits for {names}"


def handle(state: BrokerState, call: Call, request: ProduceRequest) -> ProduceResponse | Sentinel:
    production = _Production(state, call.now, request.acks)
    topics: list[TopicProduceResponse] = []
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
        for data in topic.partition_data:
            answers.append(production.append(topic, data))
    response = ProduceResponse(responses=topics)
    if production.strangers:
        nodes = endpoints_of(state.replicas, production.strangers)
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ]
    if request.acks == _ACKS_NONE:
        return CLOSE if production.has_error else NO_RESPONSE
    if not production.uncommitted:
        return response
    state.pending.park_on_partitions(
        call.slot,
        ProduceWait(state, response, production.uncommitted, by_all=request.acks == _ACKS_ALL),
        partitions=production.waits_for,
        deadline_ms=call.now.monotonic_ms + max(0, request.timeout_ms),
    )
    return PARKED


class _Production:
    """One request's appends: what they left uncommitted, and whether any failed."""

    __slots__ = (
        "_acks",
        "_now",
        "_state",
        "has_error",
        "strangers",
        "uncommitted",
        "waits_for",
    )

    def __init__(self, state: BrokerState, now: Now, acks: int) -> None:
        self._state = state
        self._now = now
        self._acks = acks
        self.uncommitted: list[Uncommitted] = []
        self.waits_for: list[PartitionKey] = []
        """Their partitions."""
        self.has_error = False
        self.strangers: list[int] = []
        """Other nodes, which lead what was sent to us."""

    def append(
        self, topic: TopicProduceData, data: PartitionProduceData
    ) -> PartitionProduceResponse:
        answer = PartitionProduceResponse(index=data.index, base_offset=-1)
        topic_id = TopicId(topic.topic_id)
        state, refused = self._state, self._state.refused_batches
        replica = state.replicas.find(topic.name, data.index, topic_id=topic_id)
        if isinstance(replica, ErrorCode):
            batch = self._to_be_sent_again(data, replica)
            if batch is not None:
                refused.note((topic.name, topic_id, data.index), batch)
            return self._send_away(topic, answer, replica)
        if refused.places:
            for earlier in refused.take((topic.name, topic_id, data.index)):
                replica.log.producers.owe(*earlier)
        records = data.records
        if replica.leader is None:
            self._send_away(topic, answer, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif replica.is_internal:
            self._refuse(answer, ErrorCode.INVALID_TOPIC_EXCEPTION, "it is the node's own")
        elif self._acks not in (_ACKS_NONE, _ACKS_LEADER, _ACKS_ALL):
            self._refuse(answer, ErrorCode.INVALID_REQUIRED_ACKS)
        elif not isinstance(records, memoryview) or not records:
            self._refuse(answer, ErrorCode.INVALID_RECORD, "there are no records")
        else:
            self._append(replica, replica.leader, records, answer)
        if answer.error_code.is_retriable:
            batch = self._to_be_sent_again(data, answer.error_code)
            if batch is not None:
                replica.log.producers.owe(*batch)
        return answer

    def _to_be_sent_again(self, data: PartitionProduceData, error: ErrorCode) -> Refused | None:
        """What its producer has sent since must not come before it."""
        if not isinstance(data.records, memoryview):
            return None
        try:
            header = read_header(data.records)
        except DecodeError:
            return None
        is_counted = header.magic == MAGIC and header.producer_id != NO_PRODUCER
        return Refused(header, self._now.wall_ms, error) if is_counted else None

    def _send_away(
        self, topic: TopicProduceData, answer: PartitionProduceResponse, error: ErrorCode
    ) -> PartitionProduceResponse:
        if error in WRONG_LEADER:
            topic_id = TopicId(topic.topic_id)
            node, epoch = leader_now(
                self._state.replicas, topic.name, answer.index, topic_id=topic_id
            )
            answer.current_leader = LeaderIdAndEpoch(leader_id=node, leader_epoch=epoch)
            self.strangers.append(node)
        return self._refuse(answer, error)

    def _append(
        self,
        replica: Replica,
        leader: Leader,
        records: memoryview,
        answer: PartitionProduceResponse,
    ) -> PartitionProduceResponse:
        state = self._state
        is_for_all = self._acks == _ACKS_ALL
        if is_for_all and not leader.has_enough_replicas:
            return self._refuse(answer, ErrorCode.NOT_ENOUGH_REPLICAS)
        if state.storage_error is not None:
            return self._refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR, state.storage_error)
        try:
            appended = leader.append(records, self._now.wall_ms)
        except DiskFull as full:
            state.replicas.stir(replica)  # it resigns, if somebody else may lead
            return self._refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR, str(full))
        except DiskError as error:
            state.fail_storage(error)
            return self._refuse(answer, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if appended.error is not ErrorCode.NONE:
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in appended.record_errors
            ]
            return self._refuse(answer, appended.error, appended.message)
        state.appended(replica)
        answer.base_offset = appended.base_offset
        answer.log_start_offset = leader.log.log_start_offset
        if leader.log.dates_appends:
            answer.log_append_time_ms = self._now.wall_ms
        if not leader.is_acknowledged(appended.last_offset, by_all=is_for_all):
            self.uncommitted.append((leader, appended.last_offset, answer))
            self.waits_for.append(replica.key)
        return answer

    def _refuse(
        self, answer: PartitionProduceResponse, error: ErrorCode, message: str | None = None
    ) -> PartitionProduceResponse:
        self.has_error = True
        return _refuse(answer, error, message)


def _name_leader(
    state: BrokerState,
    response: ProduceResponse,
    answer: PartitionProduceResponse,
    deposed: Leader,
) -> None:
    """Where to go on, for one who waited for a leader that is none any more."""
    found = state.replicas.state_of("", deposed.key.partition, topic_id=deposed.key.topic_id)
    if found is None:
        return
    answer.current_leader = LeaderIdAndEpoch(
        leader_id=found.leader, leader_epoch=found.leader_epoch
    )
    known = [node.node_id for node in response.node_endpoints]
    for node in endpoints_of(state.replicas, [found.leader]):
        if node.node_id not in known:
            response.node_endpoints.append(
                NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            )


def _refuse(
    answer: PartitionProduceResponse, error: ErrorCode, message: str | None = None
) -> PartitionProduceResponse:
    answer.error_code = error
    answer.error_message = message or error.explanation
    answer.base_offset = -1
    answer.log_start_offset = -1
    return answer

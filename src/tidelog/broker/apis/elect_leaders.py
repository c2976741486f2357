"""ElectLeaders: the preferred replica is to lead, or, where nobody leads, any that is usable.

Asked for all partitions, the answer has only those that needed an election. Before an unclean
election, which may lose records, the replicas are asked what they have: the fullest one leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.broker.controller_calls import active_controller, answer_once_committed
from tidelog.broker.pending import Wait
from tidelog.broker.state import CLOSE, PARKED, BrokerState, Call, Sentinel
from tidelog.controller.elect_leaders import ElectionOutcome
from tidelog.controller.elections import Election
from tidelog.controller.log_ends import LogEndsByPartition
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def handle(
    state: BrokerState, call: Call, request: ElectLeadersRequest
) -> ElectLeadersResponse | Sentinel:
    controller = active_controller(state)
    if controller is None:
        return _refused(ErrorCode.NOT_CONTROLLER)
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        return _refused(ErrorCode.INVALID_REQUEST)
    names = None
    if request.topic_partitions is not None:
        names = [
            TopicPartition(topic.topic, partition)
            for topic in request.topic_partitions
            for partition in topic.partitions
        ]
    if election is Election.UNCLEAN:
        _elect_once_told(state, call, names, timeout_ms=request.timeout_ms)
        return PARKED
    return _elect(state, call, names, election, {}, timeout_ms=request.timeout_ms)


def _elect_once_told(
    state: BrokerState, call: Call, names: list[TopicPartition] | None, *, timeout_ms: int
) -> None:
    """The request waits for what the replicas say, and then for the election to be committed."""
    number = state.pending.park_on_reply(call.slot, LogEndsWait())

    def told(now: Now, log_ends: LogEndsByPartition) -> None:
        row = state.pending.take(number)
        if row is None:
            return  # who has asked is gone
        again = Call(now, row.slot)
        response = _elect(state, again, names, Election.UNCLEAN, log_ends, timeout_ms=timeout_ms)
        if not isinstance(response, Sentinel):
            state.complete(state.pending.park_on_reply(row.slot, row.wait), response)

    state.cluster.ask_log_ends(call.now, state.controller.leaderless(names), told)


class LogEndsWait(Wait):
    """The nodes are asked what they have, which takes a limited time."""

    __slots__ = ()

    def resume(self, now: Now, *, is_expired: bool) -> Any | None:
        return CLOSE if is_expired else None

    def describe(self) -> str:
        return "ElectLeaders waits for what the replicas have"


def _elect(
    state: BrokerState,
    call: Call,
    names: list[TopicPartition] | None,
    election: Election,
    log_ends: LogEndsByPartition,
    *,
    timeout_ms: int,
) -> ElectLeadersResponse | Sentinel:
    controller = active_controller(state)
    if controller is None:
        return _refused(ErrorCode.NOT_CONTROLLER)
    decision = controller.elect_leaders(names, election, log_ends)
    response = ElectLeadersResponse(replica_election_results=_results(decision.response))
    return answer_once_committed(state, call, decision, response, fail=_fail, timeout_ms=timeout_ms)


def _results(outcomes: Sequence[ElectionOutcome]) -> list[ReplicaElectionResult]:
    by_topic: dict[str, list[PartitionResult]] = {}
    for outcome in outcomes:
        result = PartitionResult(
            partition_id=outcome.name.partition,
            error_code=outcome.error,
            error_message=outcome.message,
        )
        by_topic.setdefault(outcome.name.topic, []).append(result)
    return [
        ReplicaElectionResult(topic=topic, partition_result=results)
        for topic, results in by_topic.items()
    ]


def _refused(error: ErrorCode) -> ElectLeadersResponse:
    return ElectLeadersResponse(error_code=error, replica_election_results=[])


def _fail(response: ElectLeadersResponse, error: ErrorCode) -> None:
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            if result.error_code is ErrorCode.NONE:
                result.error_code, result.error_message = error, error.explanation

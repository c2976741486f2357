"""ElectLeaders: the preferred replica, or (losing records, perhaps) whoever is alive, is to lead.

Asked for all partitions, the answer has only those that needed an election.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.controller_calls import active_controller, answer_once_committed
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.controller.elect_leaders import ElectionOutcome
from tidelog.controller.elections import Election
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
    decision = controller.elect_leaders(names, election)
    response = ElectLeadersResponse(replica_election_results=_results(decision.response))
    return answer_once_committed(
        state, call, decision, response, fail=_fail, timeout_ms=request.timeout_ms
    )


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

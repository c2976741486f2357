"""FindCoordinator: says that there is none yet.

Advertised because librdkafka takes the API's presence for a sign that the broker knows lz4. Groups,
share groups and transactions are not in this release. For a group the answer is retriable, since a
consumer with assigned partitions asks as well and must go on reading; a transaction ends at once.
"""

from __future__ import annotations

from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE
from tidelog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_TRANSACTION = 1


def handle(
    state: BrokerState, call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    if request.key_type == _TRANSACTION:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        message = "transactions are not in this release of Tidelog"
    else:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        message = "consumer groups are not in this release of Tidelog: assign partitions instead"
    return FindCoordinatorResponse(
        error_code=error,
        error_message=message,
        node_id=NO_NODE,
        host="",
        port=-1,
        coordinators=[
            Coordinator(
                key=key, node_id=NO_NODE, host="", port=-1, error_code=error, error_message=message
            )
            for key in request.coordinator_keys
        ],
    )

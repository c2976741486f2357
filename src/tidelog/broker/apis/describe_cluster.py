"""DescribeCluster: the nodes that are there, and if asked, those that are fenced.

Asked for controllers, there are none beside the brokers.
"""

from __future__ import annotations

from tidelog.broker.authorized_operations import ON_CLUSTER
from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS = 1


def handle(
    state: BrokerState, call: Call, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    image = state.image
    response = DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=image.cluster_id,
        controller_id=state.cluster.told_controller_id,
        brokers=[],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ON_CLUSTER
    if request.endpoint_type != _BROKERS:
        response.error_code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        response.error_message = "this is a broker: ask for endpoint type 1"
        return response
    response.brokers = [
        DescribeClusterBroker(
            broker_id=node.node_id,
            host=node.host,
            port=node.port,
            rack=node.rack,
            is_fenced=node.is_fenced,
        )
        for node in image.nodes.values()
        if request.include_fenced_brokers or not node.is_fenced
    ]
    return response

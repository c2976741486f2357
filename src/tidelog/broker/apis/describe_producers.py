"""DescribeProducers: what a partition remembers of its idempotent producers."""

from __future__ import annotations

from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(
    state: BrokerState, call: Call, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(state, topic.name, partition) for partition in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(state: BrokerState, topic: str, partition: int) -> PartitionResponse:
    leader = state.replicas.find(topic, partition)
    if isinstance(leader, ErrorCode):
        return PartitionResponse(
            partition_index=partition, error_code=leader, error_message=leader.explanation
        )
    return PartitionResponse(
        partition_index=partition,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=-1,
            )
            for producer in leader.log.producers.describe()
        ],
    )

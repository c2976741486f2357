"""DescribeLogDirs: how many bytes each partition takes in the one data directory.

A copy's lag is what is committed and not here yet. The size of the volume is not asked of the disk
here, and answered as unknown. No directory is ever cordoned (KIP-1066): there is only one.
"""

from __future__ import annotations

from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.partition.replica import Replica
from tidelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(
    state: BrokerState, call: Call, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for leader in _wanted(state, request):
        by_topic.setdefault(leader.name.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=leader.name.partition,
                partition_size=leader.log.size_bytes(),
                offset_lag=0 if leader.follower is None else leader.follower.records_behind,
            )
        )
    is_broken = state.node_is_read_only
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR if is_broken else ErrorCode.NONE,
                log_dir=state.config.data_dir,
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in by_topic.items()
                ],
            )
        ]
    )


def _wanted(state: BrokerState, request: DescribeLogDirsRequest) -> list[Replica]:
    if request.topics is None:
        return list(state.replicas.by_key.values())
    found = (
        state.replicas.find(topic.topic, partition)
        for topic in request.topics
        for partition in topic.partitions
    )
    return [leader for leader in found if isinstance(leader, Replica)]

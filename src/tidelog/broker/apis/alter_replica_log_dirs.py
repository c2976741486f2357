"""AlterReplicaLogDirs: a node has one log directory, so there is nowhere to move a replica to.

To the directory where it is already, under the name that DescribeLogDirs tells, nothing has to be
done; any other is not found. A replica that this node does not keep yet can't be given a place.
"""

from __future__ import annotations

from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(
    state: BrokerState, call: Call, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            by_topic.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(
                    partition_index=partition,
                    error_code=_error(state, directory.path, topic.name, partition),
                )
                for partition in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ]
    )


def _error(state: BrokerState, path: str, topic: str, partition: int) -> ErrorCode:
    if path != state.config.data_dir:
        return ErrorCode.LOG_DIR_NOT_FOUND
    found = state.replicas.find(topic, partition)
    return found if isinstance(found, ErrorCode) else ErrorCode.NONE

"""AlterReplicaLogDirs (34), versions 1-2: into which directory replicas are to go (KIP-113).

- v1: the same bytes as v0. v2: flexible.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, message, string


@message
class AlterReplicaLogDirTopic:
    name: str = string()
    partitions: list[int] = array("int32")


@message
class AlterReplicaLogDir:
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@message
class AlterReplicaLogDirPartitionResult:
    partition_index: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)


@message
class AlterReplicaLogDirTopicResult:
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)

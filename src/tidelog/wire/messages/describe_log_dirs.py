"""DescribeLogDirs (35), versions 1-5: how many bytes each partition takes, by directory (KIP-113).

- Null topics ask for all. v1 (KIP-219): the same bytes as v0. v2: flexible.
- v3 (KIP-784): errors of the whole request have their own field. v4 (KIP-827): size and free space
  of the directory's volume. v5 (KIP-1066): whether new partitions are kept out of it.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, error_code, int32, int64, message, string


@message
class DescribableLogDirTopic:
    topic: str = string()
    partitions: list[int] = array("int32")


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@message
class DescribeLogDirsPartition:
    """`is_future_key`: the replica is a copy on its way to this directory from another."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean(default=False)


@message
class DescribeLogDirsTopic:
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@message
class DescribeLogDirsResult:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, default_factory=list)
    total_bytes: int = int64(versions="4+", default=-1)
    usable_bytes: int = int64(versions="4+", default=-1)
    is_cordoned: bool = boolean(versions="5+", default=False)


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(versions="3+", default=ErrorCode.NONE)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, default_factory=list)

"""CreatePartitions (37), versions 0-3: more partitions for topics (KIP-195).

- `count` is the new total. `assignments` are the replicas of the new partitions alone; null leaves
  them to the controller.
- v1 (KIP-219): the same bytes. v2: flexible. v3 (KIP-599): THROTTLING_QUOTA_EXCEEDED may be
  answered; the same bytes.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, error_code, int32, message, string


@message
class CreatePartitionsAssignment:
    broker_ids: list[int] = array("int32")


@message
class CreatePartitionsTopic:
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean(default=False)


@message
class CreatePartitionsTopicResult:
    name: str = string()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)

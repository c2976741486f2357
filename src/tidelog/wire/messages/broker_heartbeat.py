"""BrokerHeartbeat (63), versions 0-2: a broker is alive, and may be let in or must go (KIP-631).

- v1 (KIP-858): directories that failed. v2 (KIP-1066): directories that take no new replicas.
- Ours alone: the partitions whose logs may lack records, in a tag far above those of Kafka.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import OWN_TAG, array, boolean, error_code, int32, int64, message, uuid


@message
class DoubtfulTopic:
    topic_id: UUID = uuid()
    partitions: list[int] = array("int32")


@message(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[UUID] = array("uuid", versions="1+", tag=0, default_factory=list)
    cordoned_log_dirs: list[UUID] | None = array(
        "uuid", versions="2+", nullable="2+", tag=1, default=None
    )
    doubtful_topics: list[DoubtfulTopic] = array(DoubtfulTopic, tag=OWN_TAG, default_factory=list)


@message(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    is_caught_up: bool = boolean(default=False)
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()

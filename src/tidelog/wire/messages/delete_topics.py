"""DeleteTopics (20), versions 1-6.

- v4: flexible. v5 (KIP-599): error messages. v6 (KIP-516): topics by name or by id; `topic_names`
  ends at v5.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import NO_UUID, array, error_code, int32, message, string, uuid


@message
class DeleteTopicState:
    name: str | None = string(nullable="6+", default=None)
    topic_id: UUID = uuid(default=NO_UUID)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = array(DeleteTopicState, versions="6+", default_factory=list)
    topic_names: list[str] = array("string", versions="1-5", default_factory=list)
    timeout_ms: int = int32()


@message
class DeletableTopicResult:
    name: str | None = string(nullable="6+")
    topic_id: UUID = uuid(versions="6+", default=NO_UUID)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(versions="5+", nullable="5+", default=None)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)

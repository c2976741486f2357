"""RemoveRaftVoter (81), version 0: a voter is one no longer (KIP-853)."""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import error_code, int32, message, string, uuid


@message(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()


@message(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")

"""AddRaftVoter (80), versions 0-1: a replica becomes a voter (KIP-853).

- v1 (KIP-1186): the answer may come when the change is written, before it is committed.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, error_code, int32, message, string, uint16, uuid


@message
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean(versions="1+", default=True)


@message(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")

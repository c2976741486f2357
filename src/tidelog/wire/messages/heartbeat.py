"""Heartbeat (12), versions 0-4: a member lives, and hears whether the group is rebalancing.

- v1: throttle time. v3 (KIP-345): static members. v4: flexible.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import error_code, int32, message, string


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)

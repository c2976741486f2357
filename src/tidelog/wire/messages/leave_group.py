"""LeaveGroup (13), versions 0-5: members go, or are sent away by a tool.

- v1: throttle time. v3 (KIP-345): several members, answered one by one, each known by its id or,
  with an empty id, by its instance id; the single member's field ends at v2.
- v4: flexible. v5 (KIP-800): the reason.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, message, string


@message
class MemberIdentity:
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+", default=None)
    reason: str | None = string(versions="5+", nullable="5+", default=None)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: str = string()
    member_id: str = string(versions="0-2", default="")
    members: list[MemberIdentity] = array(MemberIdentity, versions="3+", default_factory=list)


@message
class MemberResponse:
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+")
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    members: list[MemberResponse] = array(MemberResponse, versions="3+", default_factory=list)

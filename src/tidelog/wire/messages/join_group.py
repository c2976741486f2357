"""JoinGroup (11), versions 0-9: a member comes, or comes back for the next generation.

- v1 (KIP-62): the rebalance timeout apart from the session timeout; before, the one served as both
  (the default -1 says so). v2: throttle time.
- v4 (KIP-394): MEMBER_ID_REQUIRED: a member without an id is given one and must join again with it.
- v5 (KIP-345): static members. v6: flexible.
- v7 (KIP-559): the protocol type in the answer, and a protocol name that may be null; an answer
  that is to fit every version says "no protocol" with an empty name.
- v8 (KIP-800): the reason for joining. v9 (KIP-814): a static leader that comes back may be told
  not to assign anew.
- `metadata` is the members' business; consumers put a subscription there (`consumer_protocol.py`).
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, byte_string, error_code, int32, message, string


@message
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = byte_string()


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(versions="1+", default=-1)
    member_id: str = string(default="")
    group_instance_id: str | None = string(versions="5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(versions="8+", nullable="8+", default=None)


@message
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string(versions="5+", nullable="5+", default=None)
    metadata: bytes = byte_string()


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: int = int32(versions="2+", default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(versions="7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+", default="")
    leader: str = string(default="")
    skip_assignment: bool = boolean(versions="9+", default=False)
    member_id: str = string(default="")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, default_factory=list)

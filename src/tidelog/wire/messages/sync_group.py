"""SyncGroup (14), versions 0-5: the leader hands in the assignments, every member gets its own.

- v1: throttle time. v3 (KIP-345): static members. v4: flexible.
- v5 (KIP-559): protocol type and name, which must be those of the generation.
- `assignment` is the members' business; consumers put partitions there (`consumer_protocol.py`).
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, byte_string, error_code, int32, message, string


@message
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = byte_string()


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(
        SyncGroupRequestAssignment, default_factory=list
    )


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None)
    assignment: bytes = byte_string(default=b"")

"""DescribeGroups (15), versions 0-6: classic groups, with their members.

- v1: throttle time. v3 (KIP-430): authorized operations. v4 (KIP-345): instance ids. v5: flexible.
- v6 (KIP-1043): an error message, and GROUP_ID_NOT_FOUND for a group that does not exist; before,
  such a group was described as dead.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, byte_string, error_code, int32, message, string

NOT_ASKED = -0x80000000
"""Authorized operations are told only to those who ask."""


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str] = array("string")
    include_authorized_operations: bool = boolean(versions="3+", default=False)


@message
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string(versions="4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = byte_string(default=b"")
    member_assignment: bytes = byte_string(default=b"")


@message
class DescribedGroup:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(versions="6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string(default="")
    protocol_type: str = string(default="")
    protocol_data: str = string(default="")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, default_factory=list)
    authorized_operations: int = int32(versions="3+", default=NOT_ASKED)


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int = int32(versions="1+", default=0)
    groups: list[DescribedGroup] = array(DescribedGroup)

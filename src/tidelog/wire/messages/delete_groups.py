"""DeleteGroups (42), versions 0-2: groups without members, with all their offsets (KIP-229).

- v1 (KIP-219): the same bytes. v2: flexible.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, message, string


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str] = array("string")


@message
class DeletableGroupResult:
    group_id: str = string()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult)

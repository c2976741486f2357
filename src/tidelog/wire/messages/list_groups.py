"""ListGroups (16), versions 0-5: the groups this node coordinates.

- v1: throttle time. v3: flexible. v4 (KIP-518): states, and a filter by them.
- v5 (KIP-848): types ("classic", "consumer"), and a filter by them. An empty filter lets all pass;
  the words are compared without regard to case.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int32, message, string


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[str] = array("string", versions="4+", default_factory=list)
    types_filter: list[str] = array("string", versions="5+", default_factory=list)


@message
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(versions="4+", default="")
    group_type: str = string(versions="5+", default="")


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    groups: list[ListedGroup] = array(ListedGroup, default_factory=list)

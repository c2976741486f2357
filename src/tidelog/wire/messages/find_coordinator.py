"""FindCoordinator (10), versions 0-6: the node that looks after a group or a transactional id.

- v1 (KIP-98): key type 0 group, 1 transaction; v6 (KIP-932): 2 share group.
- v3: flexible. v4 (KIP-699): several keys, answered one by one; the single key's fields end at v3.
- v5 (KIP-890): TRANSACTION_ABORTABLE may be answered; the same bytes.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int8, int32, message, string


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: str = string(versions="0-3", default="")
    key_type: int = int8(versions="1+", default=0)
    coordinator_keys: list[str] = array("string", versions="4+", default_factory=list)


@message
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="4+")


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: ErrorCode = error_code(versions="0-3", default=ErrorCode.NONE)
    error_message: str | None = string(versions="1-3", nullable="1-3", default="")
    node_id: int = int32(versions="0-3", default=0)
    host: str = string(versions="0-3", default="")
    port: int = int32(versions="0-3", default=0)
    coordinators: list[Coordinator] = array(Coordinator, versions="4+", default_factory=list)

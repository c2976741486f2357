"""UnregisterBroker (64), version 0: a broker will not come back (KIP-631)."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import error_code, int32, message, string


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: int = int32()


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")

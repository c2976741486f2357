"""AllocateProducerIds (67), version 0: producer ids for a broker to give out (KIP-730)."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import error_code, int32, int64, message


@message(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    producer_id_start: int = int64()
    producer_id_len: int = int32()

"""InitProducerId (22), versions 0-6: an id and epoch for an idempotent producer.

- v2: flexible. v3 (KIP-360): a producer may name its id, to have its epoch bumped. v4 (KIP-588):
  PRODUCER_FENCED. v5 (KIP-890): TRANSACTION_ABORTABLE. Both the same bytes as before.
- v6 (KIP-939): two-phase commit; described, and not stable in Kafka yet.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import boolean, error_code, int16, int32, int64, message, string


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(versions="3+", default=-1)
    producer_epoch: int = int16(versions="3+", default=-1)
    enable2_pc: bool = boolean(versions="6+", default=False)
    keep_prepared_txn: bool = boolean(versions="6+", default=False)


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int = int16(versions="6+", default=-1)

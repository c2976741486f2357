"""InitProducerId: an id for an idempotent producer, never given to another.

Ids come from a block that is recorded in the metadata log before the first of it is given out.
A producer that names its own id (KIP-360) gets a fresh one: without transactions nothing ties it to
the old. Transactional ids are refused: this release has no transactions.
"""

from __future__ import annotations

from tidelog.broker.pending import Wait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_COMMIT_TIMEOUT_MS = 30_000


class ProducerIdWait(Wait):
    """A new block is on its way into the metadata log."""

    __slots__ = ("_ids", "_state")

    def __init__(self, state: BrokerState, ids: range) -> None:
        self._state = state
        self._ids = ids

    def resume(self, now: Now, *, is_expired: bool) -> InitProducerIdResponse:
        if self._state.image.next_producer_id < self._ids.stop:
            return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not self._state.producer_ids:
            self._state.producer_ids = self._ids[1:]
        return InitProducerIdResponse(producer_id=self._ids.start, producer_epoch=0)

    def describe(self) -> str:
        return f"InitProducerId waits for the block from {self._ids.start}"


def handle(
    state: BrokerState, call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse | Sentinel:
    if request.transactional_id is not None:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if state.producer_ids:
        producer_id, state.producer_ids = state.producer_ids[0], state.producer_ids[1:]
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    decision = state.controller.allocate_producer_ids()
    offset = state.commit(decision, call.now)
    if isinstance(offset, ErrorCode):
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    state.pending.park_on_metadata(
        call.slot,
        ProducerIdWait(state, decision.response),
        offset=offset,
        deadline_ms=call.now.monotonic_ms + _COMMIT_TIMEOUT_MS,
    )
    return PARKED


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)

"""InitProducerId: an id for an idempotent producer, never given to another.

Ids come from a block that is recorded in the metadata log before the first of it is given out.
A producer that names its own id (KIP-360) gets a fresh one: without transactions nothing ties it to
the old. Transactional ids are refused: this release has no transactions.
"""

from __future__ import annotations

from tidelog.broker.peers import Then
from tidelog.broker.pending import Wait
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
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
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if state.producer_ids:
        producer_id, state.producer_ids = state.producer_ids[0], state.producer_ids[1:]
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    if state.active_controller is None:
        return _ask_for_block(state, call)
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


def _ask_for_block(state: BrokerState, call: Call) -> InitProducerIdResponse | Sentinel:
    """The controller gives each node blocks of its own."""
    number = state.pending.park_on_reply(call.slot, BlockWait())
    asked = AllocateProducerIdsRequest(
        broker_id=state.config.node_id, broker_epoch=state.cluster.broker_epoch
    )

    def given(now: Now, response: AllocateProducerIdsResponse) -> None:
        if response.error_code is not ErrorCode.NONE:
            state.complete(number, _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        first = response.producer_id_start
        ids = range(first, first + response.producer_id_len)
        state.producer_ids = ids[1:]
        state.complete(number, InitProducerIdResponse(producer_id=ids[0], producer_epoch=0))

    def failed(now: Now, reason: str) -> None:
        state.complete(number, _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    is_asked = state.cluster.ask_controller(
        call.now, asked, timeout_ms=_COMMIT_TIMEOUT_MS, conversation=Then(given, failed)
    )
    if not is_asked:
        failed(call.now, "there is no controller")
    return PARKED


class BlockWait(Wait):
    """The controller has been asked for a block; the answer comes by the row's number."""

    __slots__ = ()

    def resume(self, now: Now, *, is_expired: bool) -> InitProducerIdResponse | None:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) if is_expired else None

    def describe(self) -> str:
        return "InitProducerId waits for the controller"


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)

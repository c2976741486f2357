"""A response that becomes true when its records are committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.broker.pending import Wait
from tidelog.broker.state import BrokerState
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset


class CommitWait(Wait):
    """`fail` turns the response into one that says the decision did not come about in time."""

    __slots__ = ("_fail", "_offset", "_response", "_state")

    def __init__(
        self,
        state: BrokerState,
        offset: Offset,
        response: Any,
        fail: Callable[[Any, ErrorCode], None],
    ) -> None:
        self._state = state
        self._offset = offset
        self._response = response
        self._fail = fail

    def resume(self, now: Now, *, is_expired: bool) -> Any:
        if self._state.journal.committed_offset <= self._offset:
            is_broken = self._state.node_is_read_only
            error = ErrorCode.KAFKA_STORAGE_ERROR if is_broken else ErrorCode.REQUEST_TIMED_OUT
            self._fail(self._response, error)
        return self._response

    def describe(self) -> str:
        return f"{type(self._response).__name__} waits for metadata offset {self._offset}"

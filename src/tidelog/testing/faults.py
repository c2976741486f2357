"""Which requests are to meet with a fault: the list that a test writes and the node obeys.

A fault names an API and how often it strikes; it strikes the next requests of that API, whoever
sends them, in the order they come. Three kinds:

- `Refusal`: the request is not executed; its answer is the error. Sits in the broker's handlers, so
  that the answer stands in line behind those of earlier requests.
- `Delay`: the request, and what its connection sends after it, comes later. Sits in the gate.
- `Loss`: the request is executed; instead of its answer the client gets a closed connection.

What `node.produce` and the like send for the test itself is exempt: it comes as `TEST_CLIENT_ID`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from tidelog.broker.apis.table import HANDLERS, Handler
from tidelog.broker.apis.versions import SERVED
from tidelog.broker.state import CLOSE, BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.testing.refusal import refusal
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.requests import API_VERSIONS, RequestHeader

TEST_CLIENT_ID = "tidelog-testing"

_KEY_BY_NAME = {row.name: row.key for row in SERVED.values()}


@dataclass(slots=True, eq=False)
class Fault:
    """One entry. `hits` counts the requests it has struck; `times` None means every one."""

    api: str
    times: int | None = 1
    hits: int = 0
    _is_lifted: bool = field(default=False, repr=False)

    def lift(self) -> None:
        """Strike no more."""
        self._is_lifted = True

    @property
    def is_over(self) -> bool:
        return self._is_lifted or (self.times is not None and self.hits >= self.times)


@dataclass(slots=True, eq=False)
class Refusal(Fault):
    """Answered with `error`, not executed."""

    error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


@dataclass(slots=True, eq=False)
class Delay(Fault):
    """Executed `delay_ms` later."""

    delay_ms: float = 0.0


@dataclass(slots=True, eq=False)
class Loss(Fault):
    """Executed; the answer never arrives."""


AnyFault = TypeVar("AnyFault", bound=Fault)


class Faults:
    """All faults of a node. Tests write from their thread, the node reads from its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, fault: AnyFault) -> AnyFault:
        _key_of(fault.api)
        with self._lock:
            self._faults = [each for each in self._faults if not each.is_over]
            self._faults.append(fault)
        return fault

    def lift_all(self) -> None:
        with self._lock:
            for fault in self._faults:
                fault.lift()
            self._faults = []

    def strike(self, kind: type[AnyFault], header: RequestHeader) -> AnyFault | None:
        """The fault of that kind that the request meets with, if any; it is used up by one."""
        if not self._faults or header.client_id == TEST_CLIENT_ID:
            return None
        with self._lock:
            for fault in self._faults:
                is_meant = isinstance(fault, kind) and _key_of(fault.api) == header.api_key
                if is_meant and not fault.is_over:
                    fault.hits += 1
                    return fault  # type: ignore[return-value]
        return None

    def handlers(self) -> Mapping[int, Handler]:
        """The broker's, each behind a look at the list."""
        return {key: self._guarded(handler) for key, handler in HANDLERS.items()}

    def _guarded(self, handler: Handler) -> Handler:
        def handle(state: BrokerState, call: Call, request: Any) -> Any:
            header = call.slot.header
            struck = self.strike(Refusal, header)
            if struck is None:
                return handler(state, call, request)
            if isinstance(request, ProduceRequest) and request.acks == 0:
                return CLOSE
            if header.api_key == API_VERSIONS and struck.error is ErrorCode.UNSUPPORTED_VERSION:
                # A client that asks too new a version can be sure of reading the oldest answer.
                header = call.slot.header = header._replace(api_version=0)
            return refusal(header, request, struck.error)

        return handle


def error_named(error: str | ErrorCode) -> ErrorCode:
    """Kafka's name of it, or the value; `ValueError` if there is no such error."""
    if error not in ErrorCode.__members__ and not isinstance(error, ErrorCode):
        raise ValueError(f"no error is called {error!r}{_meant(error, ErrorCode.__members__)}")
    return error if isinstance(error, ErrorCode) else ErrorCode[error]


def _key_of(api: str) -> int:
    key = _KEY_BY_NAME.get(api)
    if key is None:
        raise ValueError(f"the node serves no API {api!r}{_meant(api, _KEY_BY_NAME)}")
    return key


def _meant(name: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f": did you mean {close[0]!r}?" if close else ""

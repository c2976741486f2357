"""A client's end of a connection: encodes requests, decodes answers, matches one to the other.

It makes one attempt per call and never retries by itself: what becomes of a call is an `Answer`, or
`Lost`, and the caller decides what that means. Answers must come in the order of the requests and
carry their correlation ids; anything else is a finding (the protocol knows no excuse).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.network import Connection, Delivery, Network, Server
from tidelog.sim.schedule import Promise, Schedule
from tidelog.wire.errors import DecodeError
from tidelog.wire.requests import LENGTH_BYTES, decode_response, encode_request
from tidelog.wire.schema import schema_of


class Answer(NamedTuple):
    """A response; `emitted_ms` is when the node gave it, in the life `incarnation`."""

    body: Any
    emitted_ms: float
    incarnation: int


class Lost(NamedTuple):
    """No answer came: nobody knows whether the request was carried out."""

    reason: str


Reply = Answer | Lost


@dataclass(slots=True)
class _Call:
    correlation_id: int
    api_key: int
    version: int
    promise: Promise[Reply]


class Client:
    """One connection at a time to one host; opened when first needed and after each loss."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        server: Server,
        *,
        name: str,
        report: Callable[[Finding], None],
    ) -> None:
        self._schedule = schedule
        self._network = network
        self._server = server
        self._name = name
        self._report = report
        self._connection: Connection | None = None
        self._waiting: deque[_Call] = deque()
        self._next_correlation_id = 1

    def call(self, request: Any, version: int, *, timeout_ms: float) -> Promise[Reply]:
        """Send, and promise the answer. After the timeout the connection is given up."""
        promise: Promise[Reply] = Promise()
        call = _Call(
            self._next_correlation_id, schema_of(type(request)).api_key or 0, version, promise
        )
        frame = encode_request(
            request, version, correlation_id=call.correlation_id, client_id=self._name
        )
        self._next_correlation_id += 1
        self._waiting.append(call)
        connection = self._connected()
        connection.send_request(frame[LENGTH_BYTES:])
        self._schedule.after(timeout_ms, lambda: self._time_out(call, connection))
        return promise

    def send(self, request: Any, version: int) -> None:
        """Send what is never answered (acks=0)."""
        frame = encode_request(request, version, correlation_id=0, client_id=self._name)
        self._connected().send_request(frame[LENGTH_BYTES:])

    def hang_up(self) -> None:
        """Close; calls still waiting are lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.hang_up()
        self._lose("hung up")

    def _connected(self) -> Connection:
        if self._connection is None:
            opened: list[Connection] = []
            connection = self._network.connect(
                self._server,
                on_frame=lambda delivery: self._received(opened[0], delivery),
                on_close=lambda reason: self._closed(opened[0], reason),
            )
            opened.append(connection)
            self._connection = connection
        return self._connection

    def _received(self, connection: Connection, delivery: Delivery) -> None:
        if connection is not self._connection:
            return
        frame = memoryview(delivery.frame)
        size = int.from_bytes(frame[:LENGTH_BYTES], "big", signed=True)
        if size != len(frame) - LENGTH_BYTES:
            self._wrong(f"a response of {len(frame) - LENGTH_BYTES} bytes claims {size}")
            return
        if not self._waiting:
            self._wrong("a response came that nobody had asked for")
            return
        call = self._waiting.popleft()
        try:
            correlation_id, body = decode_response(call.api_key, call.version, frame[LENGTH_BYTES:])
        except DecodeError as error:
            self._wrong(f"the answer to api {call.api_key} v{call.version} is malformed: {error}")
            call.promise.keep(Lost("malformed"))
            return
        if correlation_id != call.correlation_id:
            self._wrong(f"answer {correlation_id} came where {call.correlation_id} was due")
        call.promise.keep(Answer(body, delivery.emitted_ms, delivery.incarnation))

    def _closed(self, connection: Connection, reason: str) -> None:
        if connection is self._connection:
            self._connection = None
            self._lose(reason)

    def _time_out(self, call: _Call, connection: Connection) -> None:
        if not call.promise.is_kept and connection is self._connection:
            self._connection = None
            connection.hang_up()
            self._lose("timed out")

    def _lose(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            call.promise.keep(Lost(reason))

    def _wrong(self, text: str) -> None:
        self._report(Finding("protocol", f"{self._name}: {text}"))

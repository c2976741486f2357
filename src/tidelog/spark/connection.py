"""One connection to one broker: ask and wait, or send now and receive later.

Plain blocking sockets: a Spark task has nothing else to do while it waits. Versions are negotiated
once per connection (ApiVersions), so that any broker will do. What fails here is an `OSError`; the
cluster decides whether to try again.
"""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Any, NamedTuple, Self

from tidelog.spark.errors import RefusedByBroker
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages import API_BY_KEY
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.requests import decode_response, encode_request
from tidelog.wire.schema import schema_of

MAX_ANSWER_BYTES = 1 << 30
"""A fetch gives at least one batch, however large; beyond this something else is wrong."""

MAX_THROTTLE_S = 30.0
_RECEIVE_BYTES = 4 * 1024 * 1024
_length = struct.Struct(">i")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class _Question(NamedTuple):
    api_key: int
    version: int
    correlation_id: int


class BrokerConnection:
    """Connected and greeted when made. One request may be under way at a time."""

    def __init__(
        self, address: Address, *, connect_timeout_s: float, timeout_s: float, client_id: str
    ) -> None:
        self.address = address
        self._client_id = client_id
        self._correlation_id = 0
        self._under_way: _Question | None = None
        self._throttled_until_s = 0.0
        self._socket = socket.create_connection(address, timeout=connect_timeout_s)
        try:
            self._socket.settimeout(timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._served = self._negotiate()
        except BaseException:
            self._socket.close()
            raise

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        self._transmit(ApiVersionsRequest(), 0)
        rows = self.receive().api_keys
        return {row.api_key: (row.min_version, row.max_version) for row in rows}

    def serves(self, api_key: int) -> bool:
        return api_key in self._served

    def version_for(self, api_key: int, *, at_most: int | None = None) -> int:
        """The newest version that both know; `RefusedByBroker` if there is none."""
        api = API_BY_KEY[api_key]
        low, high = self._served.get(api_key, (0, -1))
        newest = min(high, api.max_version if at_most is None else at_most)
        if newest < max(low, api.min_version):
            raise RefusedByBroker(
                f"the broker at {self.address} serves no version of {api.name} that is known here"
            )
        return newest

    def ask(self, request: Any, *, at_most: int | None = None) -> Any:
        """Send, wait, and give the answer."""
        self.send(request, at_most=at_most)
        return self.receive()

    def send(self, request: Any, *, at_most: int | None = None) -> None:
        """`receive` gives the answer. A broker that asked us to wait is not asked before."""
        self._transmit(request, self.version_for(_key_of(request), at_most=at_most))

    def _transmit(self, request: Any, version: int) -> None:
        assert self._under_way is None, "one question at a time"
        pause_s = self._throttled_until_s - time.monotonic()
        if pause_s > 0:
            time.sleep(min(pause_s, MAX_THROTTLE_S))
        self._correlation_id += 1
        question = _Question(_key_of(request), version, self._correlation_id)
        frame = encode_request(
            request, version, correlation_id=question.correlation_id, client_id=self._client_id
        )
        self._under_way = question
        self._socket.sendall(frame)

    def receive(self) -> Any:
        """The answer to what was sent. Its `records` are views of a buffer that is theirs alone."""
        question = self._under_way
        assert question is not None, "nothing was asked"
        (size,) = _length.unpack(self._receive_exactly(_length.size))
        if not 0 < size <= MAX_ANSWER_BYTES:
            raise DecodeError(f"{self.address} announces an answer of {size} bytes")
        frame = self._receive_exactly(size)
        self._under_way = None
        correlation_id, answer = decode_response(
            question.api_key, question.version, memoryview(frame)
        )
        if correlation_id != question.correlation_id:
            raise DecodeError(f"{self.address} answers another question than was asked")
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttled_until_s = time.monotonic() + throttle_ms / 1000
        return answer

    def _receive_exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            got = self._socket.recv_into(view[filled : filled + _RECEIVE_BYTES])
            if not got:
                raise ConnectionResetError(f"{self.address} closed the connection")
            filled += got
        return data

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _key_of(request: Any) -> int:
    key = schema_of(type(request)).api_key
    assert key is not None, f"{type(request).__name__} is not a request"
    return key

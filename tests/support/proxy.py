"""A TCP proxy that knows where Kafka's frames begin and end, and cuts connections there.

It runs in the test's process, on threads: one accepts, two per connection carry whole frames. It
counts the requests that pass by API and version, and, while `faults` says so, ends a connection
before a frame, after it or in the middle of it: a request the node never saw, an answer the client
never saw, half of either.

Clients learn from metadata where the node is, so a node behind a proxy must advertise the proxy.
Every address 127.x.y.z is this machine: the node advertises one of those, and the proxy listens
there on the node's own port number (`proxied_node`).
"""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support.node_process import RunningNode, StartNode
from tests.support.resetting import reset

PRODUCE, FETCH, INIT_PRODUCER_ID = 0, 1, 22

_LENGTH = struct.Struct(">i")
_REQUEST_HEAD = struct.Struct(">hhi")
_RESPONSE_HEAD = struct.Struct(">i")


class Call(NamedTuple):
    """Which API, in which version, a request is for."""

    api_key: int
    version: int


@dataclass
class Faults:
    """How often a frame of one of `api_keys` is the last of its connection."""

    seed: int
    rate: float
    api_keys: tuple[int, ...] = (PRODUCE, FETCH, INIT_PRODUCER_ID)
    luck: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.luck = random.Random(self.seed)

    def draw(self, api_key: int) -> str:
        """`none`, or where to cut: `before`, `middle`, `after`."""
        if api_key not in self.api_keys or self.luck.random() >= self.rate:
            return "none"
        return self.luck.choice(("before", "middle", "after"))


class Proxy:
    """From `host:port` to the node at `upstream`. A context manager."""

    def __init__(self, host: str, port: int, *, upstream: tuple[str, int]) -> None:
        self.faults: Faults | None = None
        self.calls: Counter[Call] = Counter()
        self.cuts: Counter[str] = Counter()
        self._upstream = upstream
        self._pairs: list[_Pair] = []
        self._lock = threading.Lock()
        self._is_closing = False
        self._listener = socket.create_server((host, port), backlog=256)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def bootstrap(self) -> str:
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.cut_all()

    def cut_all(self) -> None:
        """End every connection now."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.close()

    def fault_for(self, api_key: int) -> str:
        with self._lock:
            fault = "none" if self.faults is None else self.faults.draw(api_key)
            if fault != "none":
                self.cuts[fault] += 1
            return fault

    def count(self, call: Call) -> None:
        with self._lock:
            self.calls[call] += 1

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self._is_closing:
                    return
                raise
            try:
                node = socket.create_connection(self._upstream)
            except OSError:
                client.close()
                continue
            pair = _Pair(self, client, node)
            with self._lock:
                self._pairs = [each for each in self._pairs if not each.is_closed]
                self._pairs.append(pair)
            pair.start()


class _Pair:
    """One client's connection and its twin to the node."""

    def __init__(self, proxy: Proxy, client: socket.socket, node: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._node = node
        self._waiting: dict[int, int] = {}
        self._lock = threading.Lock()
        self.is_closed = False
        for sock in (client, node):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        for target in (self._carry_requests, self._carry_responses):
            threading.Thread(target=target, daemon=True).start()

    def close(self) -> None:
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
        reset(self._client, self._node)

    def _carry_requests(self) -> None:
        self._carry(self._client, self._node, self._key_of_request)

    def _carry_responses(self) -> None:
        self._carry(self._node, self._client, self._key_of_response)

    def _key_of_request(self, frame: bytes) -> int:
        api_key, version, correlation = _REQUEST_HEAD.unpack_from(frame, _LENGTH.size)
        self._proxy.count(Call(api_key, version))
        self._waiting[correlation] = api_key
        return int(api_key)

    def _key_of_response(self, frame: bytes) -> int:
        return self._waiting.pop(_RESPONSE_HEAD.unpack_from(frame, _LENGTH.size)[0])

    def _carry(
        self, source: socket.socket, target: socket.socket, key_of: Callable[[bytes], int]
    ) -> None:
        try:
            while (frame := _read_frame(source)) is not None:
                fault = self._proxy.fault_for(key_of(frame))
                if fault == "middle":
                    target.sendall(frame[: len(frame) // 2])
                elif fault != "before":
                    target.sendall(frame)
                if fault != "none":
                    break
        except OSError:
            pass
        finally:
            self.close()


def _read_frame(source: socket.socket) -> bytes | None:
    """A whole frame, length included; None at the end of the connection."""
    head = _read_exactly(source, _LENGTH.size)
    if head is None:
        return None
    body = _read_exactly(source, _LENGTH.unpack(head)[0])
    return None if body is None else head + body


def _read_exactly(source: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = source.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


@contextmanager
def proxied_node(
    start_node: StartNode, data_dir: Path, *arguments: str
) -> Iterator[tuple[RunningNode, Proxy]]:
    """A node whose clients all come through the proxy."""
    number = os.getpid() % 60_000
    host = f"127.{number // 250 + 1}.{number % 250}.1"
    node = start_node(data_dir, "--advertise", host, *arguments)
    with Proxy(host, node.port, upstream=(node.host, node.port)) as proxy:
        yield node, proxy

"""The listening socket: accepts until there is nobody left, up to a limit.

Out of file descriptors, an accept loop spins: the connection stays in the kernel's queue and the
socket stays readable. So the limit lies below the descriptor limit, one descriptor is kept in
reserve, and with it a connection too many is accepted and closed at once.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable

_BACKLOG = 1024
_ACCEPTS_PER_TURN = 64
"""A flood of connections must not keep the loop from those that are open."""

_LEAST_RESERVE = 32
_MOST_RESERVE = 128
"""Descriptors for the loop and the process itself; log files take theirs from the other half."""


class Listener:
    """One address. `on_connection` gets a non-blocking socket and the peer's name."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        host: str,
        port: int,
        *,
        send_buffer_bytes: int,
        on_connection: Callable[[socket.socket, str], None],
    ) -> None:
        self._loop = loop
        self._on_connection = on_connection
        self._spare: int | None = os.open("/dev/null", os.O_RDONLY)
        self._socket = _bound_socket(host, port)
        if send_buffer_bytes >= 0:  # inherited by the connections
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self.host = host
        self.port: int = self._socket.getsockname()[1]

    def start(self) -> None:
        self._socket.listen(_BACKLOG)
        self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        if self._spare is not None:
            os.close(self._spare)

    def _on_readable(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._shed_one()
                return  # any other is the fault of the connection that was to be
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                sock.close()
                continue
            self._on_connection(sock, f"{address[0]}:{address[1]}")

    def _shed_one(self) -> None:
        """Accept with the spare descriptor, only to close. The flush thread may be quicker to take
        it: then there is none until the next time."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
            try:
                self._socket.accept()[0].close()
            except OSError:
                pass
        try:
            self._spare = os.open("/dev/null", os.O_RDONLY)
        except OSError:
            pass


def raise_descriptor_limit() -> None:
    """Use all the descriptors the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connection_room() -> int:
    """How many connections the process's descriptors allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    reserve = min(_MOST_RESERVE, max(_LEAST_RESERVE, soft // 4))
    return max(1, (soft - reserve) // 2)


def _bound_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock

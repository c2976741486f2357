"""Connections that end with a reset, so that nobody takes it for a polite good-bye."""

from __future__ import annotations

import socket
import struct

_AT_ONCE = struct.pack("ii", 1, 0)


def reset(*sockets: socket.socket) -> None:
    for sock in sockets:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        sock.close()

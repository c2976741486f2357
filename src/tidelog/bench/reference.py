"""The raw limit R: a server that moves the same bytes and decides nothing.

`python -m tidelog.bench.reference --data-dir DIR --fetch-bytes N` listens on a free port, prints
`ready HOST:PORT` and answers, by the api key of the frame:

- Produce: CRC-32C over the frame, `pwrite` to the end of a file, eight bytes back; with `--flush`
  after one `fdatasync` for all that one turn of the loop has brought;
- Fetch: `fetch-bytes` of that file by `sendfile`, going round at its end;
- anything else: eight bytes back.

No offsets, no topics, no checks: what a node adds to this is the price of being a log.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import socket
import struct
import sys
from pathlib import Path

from crc32c import crc32c

PRODUCE, FETCH = 0, 1

_HEADER = struct.Struct(">ihhi")
"""Length, api key, api version, correlation id."""

_REPLY = struct.Struct(">ii")
_BUFFER_BYTES = 128 << 10
_SEND_BUFFER_BYTES = 100 << 10
"""Kafka's default. Left to the kernel, the buffer grows to megabytes and a gigabyte sent over
loopback has cost both ends up to twice the CPU: a reference without it was not the limit."""

_WHOLE_FRAME_BYTES = 64 << 10
"""A longer frame is read up to its own end only, so that the next one never has to be moved."""


class Connection:
    """One client: bytes read so far, and what is still to be sent of a file range."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = bytearray(_BUFFER_BYTES)
        self.view = memoryview(self.buffer)
        self.start = 0
        self.end = 0
        self.file_position = 0
        self.file_left = 0

    def receive(self) -> bool:
        """Read once; false when the client is gone."""
        limit = len(self.buffer)
        if self.end - self.start >= _HEADER.size:
            size = 4 + _HEADER.unpack_from(self.buffer, self.start)[0]
            if size > _WHOLE_FRAME_BYTES:
                self._make_room(size)
                limit = self.start + size
        try:
            count = self.sock.recv_into(self.view[self.end : limit])
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        self.end += count
        return count > 0

    def _make_room(self, size: int) -> None:
        """The frame that begins at `start` shall fit: grow once, then never move a byte."""
        if self.start + size <= len(self.buffer):
            return
        left = bytes(self.view[self.start : self.end])
        if size > len(self.buffer):
            self.buffer = bytearray(size)
            self.view = memoryview(self.buffer)
        self.buffer[: len(left)] = left
        self.start, self.end = 0, len(left)

    def next_frame(self) -> tuple[int, int, memoryview] | None:
        """Api key, correlation id and the whole frame, if one is complete."""
        if self.end - self.start >= _HEADER.size:
            size, api_key, _, correlation_id = _HEADER.unpack_from(self.buffer, self.start)
            if self.end - self.start >= 4 + size:
                frame = self.view[self.start : self.start + 4 + size]
                self.start += 4 + size
                return api_key, correlation_id, frame
        if self.start == self.end:
            self.start = self.end = 0
        elif self.end == len(self.buffer):
            self._make_room(len(self.buffer))
        return None


class ReferenceServer:
    """The loop. One file for all that is produced; fetches read it from start to end."""

    def __init__(self, *, data_dir: Path, fetch_bytes: int, flush: bool) -> None:
        self._file = os.open(data_dir / "reference.log", os.O_RDWR | os.O_CREAT, 0o644)
        self._size = 0
        self._next_read = 0
        self._fetch_bytes = fetch_bytes
        self._flush = flush
        self._unflushed: list[tuple[socket.socket, int]] = []
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    def serve_forever(self) -> None:
        while True:
            for fileno, events in self._epoll.poll():
                if fileno == self._listener.fileno():
                    self._accept()
                elif not self._serve(self._connections[fileno], events):
                    self._epoll.unregister(fileno)
                    self._connections.pop(fileno).sock.close()
            if self._unflushed:
                self._answer_flushed()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            self._connections[sock.fileno()] = Connection(sock)
            self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _serve(self, connection: Connection, events: int) -> bool:
        if events & select.EPOLLOUT:
            return self._send_file(connection)
        if not connection.receive():
            return False
        while (received := connection.next_frame()) is not None:
            api_key, correlation_id, frame = received
            if api_key == FETCH:
                if not self._answer_fetch(connection, correlation_id):
                    return False
                continue
            if api_key == PRODUCE:
                crc32c(frame)
                self._size += os.pwrite(self._file, frame, self._size)
                if self._flush:
                    self._unflushed.append((connection.sock, correlation_id))
                    continue
            connection.sock.send(_REPLY.pack(4, correlation_id))
        return True

    def _answer_flushed(self) -> None:
        os.fdatasync(self._file)
        for sock, correlation_id in self._unflushed:
            with contextlib.suppress(OSError):
                sock.send(_REPLY.pack(4, correlation_id))
        self._unflushed.clear()

    def _answer_fetch(self, connection: Connection, correlation_id: int) -> bool:
        count = min(self._fetch_bytes, self._size)
        if self._next_read + count > self._size:
            self._next_read = 0
        connection.file_position, connection.file_left = self._next_read, count
        self._next_read += count
        connection.sock.send(_REPLY.pack(4 + count, correlation_id), socket.MSG_MORE)
        return self._send_file(connection)

    def _send_file(self, connection: Connection) -> bool:
        fileno = connection.sock.fileno()
        try:
            while connection.file_left:
                sent = os.sendfile(
                    fileno, self._file, connection.file_position, connection.file_left
                )
                connection.file_position += sent
                connection.file_left -= sent
        except BlockingIOError:
            self._epoll.modify(fileno, select.EPOLLOUT)
            return True
        except ConnectionError:
            return False
        self._epoll.modify(fileno, select.EPOLLIN)
        return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--fetch-bytes", type=int, default=1 << 20)
    parser.add_argument("--flush", action="store_true")
    arguments = parser.parse_args()
    server = ReferenceServer(
        data_dir=arguments.data_dir, fetch_bytes=arguments.fetch_bytes, flush=arguments.flush
    )
    host, port = server.address
    sys.stdout.write(f"ready {host}:{port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()

"""The network between nodes, in a test's hand: every node reaches every other through a link of its
own, which can be cut.

A link is a listening socket and, for each connection, two threads that carry bytes. A **silent**
cut carries nothing and says nothing: connections stay, new ones are taken and never answered, and
what was under way arrives late, after the link is healed, as it does on a real network. A
**refusing** cut resets every connection, at once and later. Clients are not concerned: they go to
the nodes directly. It needs no privileges and works wherever there is a loopback interface.
"""

from __future__ import annotations

import socket
import threading
from itertools import permutations
from typing import Literal

from tests.support.resetting import reset

How = Literal["silent", "refusing"]

_CHUNK_BYTES = 1 << 16


class Link:
    """From one node to another: it listens on `port`, and carries to `upstream`."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._pairs: list[_Pair] = []
        self._lock = threading.Lock()
        self.is_carrying = threading.Event()
        self.is_carrying.set()
        self.is_refusing = False
        self.is_closing = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, how: How) -> None:
        if how == "refusing":
            self.is_refusing = True
            self._reset_all()
        else:
            self.is_carrying.clear()

    def heal(self) -> None:
        self.is_refusing = False
        self.is_carrying.set()

    def close(self) -> None:
        self.is_closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._reset_all()
        self.is_carrying.set()

    def _reset_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                if self.is_closing:
                    return
                continue  # whoever wanted to connect is gone already
            pair = _Pair(self, near)
            with self._lock:
                self._pairs = [each for each in self._pairs if not each.is_closed]
                self._pairs.append(pair)
            if self.is_refusing or self.is_closing:
                pair.close()
            else:
                threading.Thread(target=pair.connect, args=(self._upstream,), daemon=True).start()


class _Pair:
    """One connection of a node, and its twin to the other."""

    def __init__(self, link: Link, near: socket.socket) -> None:
        self._link = link
        self._near = near
        self._far = socket.socket()
        self._lock = threading.Lock()
        self.is_closed = False

    def connect(self, upstream: tuple[str, int]) -> None:
        self._link.is_carrying.wait()
        try:
            self._far.connect(upstream)
            for sock in (self._near, self._far):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            self.close()
            return
        threading.Thread(target=self._carry, args=(self._far, self._near), daemon=True).start()
        self._carry(self._near, self._far)

    def close(self) -> None:
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
        reset(self._near, self._far)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(_CHUNK_BYTES):
                self._link.is_carrying.wait()
                target.sendall(data)
        except OSError:
            pass
        finally:
            self._link.is_carrying.wait()
            self.close()


class Network:
    """The links between all of `ports`, which says where each node listens."""

    def __init__(self, ports: dict[int, int]) -> None:
        self._ports = ports
        self._links = {
            (one, other): Link(("127.0.0.1", ports[other])) for one, other in permutations(ports, 2)
        }

    def voters_of(self, node: int) -> str:
        """What the node is told: itself where it is, the others at the near ends of its links."""
        at = {
            each: port if each == node else self._links[node, each].port
            for each, port in self._ports.items()
        }
        return ",".join(f"{each}@127.0.0.1:{port}" for each, port in at.items())

    def cut(self, one: int, other: int, how: How = "silent") -> None:
        """Neither reaches the other."""
        self._links[one, other].cut(how)
        self._links[other, one].cut(how)

    def isolate(self, node: int, how: How = "silent") -> None:
        for other in self._ports:
            if other != node:
                self.cut(node, other, how)

    def heal(self) -> None:
        for link in self._links.values():
            link.heal()

    def close(self) -> None:
        for link in self._links.values():
            link.close()

"""Connections to other nodes, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tidelog.broker.effects import CallPeer, HangUp
from tidelog.broker.events import PeerAnswered, PeerFailed
from tidelog.model.ids import CallId, Endpoint
from tidelog.runtime.peers import PeerSockets
from tidelog.runtime.turns import Turns

WAIT_S = 60.0


class Bench:
    """A server that answers each frame with itself, unless told to stay silent or to hang up."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, bytes | str]] = []
        self.changed = asyncio.Event()
        self.is_silent = False
        self.hangs_up = False
        self.connections = 0
        self.peers = PeerSockets(
            Turns(asyncio.get_running_loop(), begin=lambda: None, end=lambda: None),
            max_frame_bytes=1 << 20,
            on_event=self._on_event,
        )

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = Endpoint(*server.sockets[0].getsockname()[:2])
        return server

    def call(self, number: int, text: bytes, *, endpoint: Endpoint | None = None) -> None:
        frame = len(text).to_bytes(4, "big") + text
        at = endpoint or self.endpoint
        self.peers.call(CallPeer(CallId(number), at, "control", frame))

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.heard) < count:
                self.changed.clear()
                await self.changed.wait()

    def _on_event(self, event: PeerAnswered | PeerFailed) -> None:
        told = bytes(event.frame) if isinstance(event, PeerAnswered) else event.reason
        self.heard.append((event.call, told))
        self.changed.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(head, "big"))
                if self.hangs_up:
                    break
                if not self.is_silent:
                    writer.write(head + body)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


def _run(scene: Callable[[Bench], Awaitable[None]]) -> Bench:
    async def play() -> Bench:
        bench = Bench()
        server = await bench.start()
        await scene(bench)
        bench.peers.close()
        server.close()
        return bench

    return asyncio.run(play())


def test_answers_come_to_their_calls_over_one_connection() -> None:
    async def scene(bench: Bench) -> None:
        for number in range(5):
            bench.call(number, b"question %d" % number)
        await bench.wait_for(5)
        bench.call(5, b"a later one")
        await bench.wait_for(6)

    bench = _run(scene)
    assert bench.heard == [*((n, b"question %d" % n) for n in range(5)), (5, b"a later one")]
    assert bench.connections == 1


def test_a_node_that_is_not_there_fails_every_call() -> None:
    async def scene(bench: Bench) -> None:
        nobody = Endpoint("127.0.0.1", 1)
        bench.call(1, b"first", endpoint=nobody)
        bench.call(2, b"the second", endpoint=nobody)
        await bench.wait_for(2)

    bench = _run(scene)
    assert [call for call, _ in bench.heard] == [1, 2]
    assert all("can't connect" in str(reason) for _, reason in bench.heard)


def test_a_lost_connection_fails_its_calls_and_the_next_call_makes_another() -> None:
    async def scene(bench: Bench) -> None:
        bench.hangs_up = True
        bench.call(1, b"first")
        await bench.wait_for(1)
        bench.hangs_up = False
        bench.call(2, b"the second")
        await bench.wait_for(2)

    bench = _run(scene)
    assert isinstance(bench.heard[0][1], str)
    assert bench.heard[1] == (2, b"the second")
    assert bench.connections == 2


def test_hanging_up_fails_who_still_waits() -> None:
    async def scene(bench: Bench) -> None:
        bench.is_silent = True
        bench.call(1, b"first")
        bench.peers.hang_up(HangUp(bench.endpoint, "control"))
        await bench.wait_for(1)

    assert _run(scene).heard == [(1, "given up")]

"""All sockets of a turn are heard together, on a real loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effects import Effect
from tidelog.broker.events import Event, FrameReceived
from tidelog.broker.node import Node
from tidelog.model.clock import Now
from tidelog.runtime.file_disk import FileDisk
from tidelog.runtime.service import ServeOptions, Service
from tidelog.runtime.turns import MOST_READY, Turns
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.requests import encode_request

_WAIT_S = 60.0


class Stage:
    """Sockets whose turns are noted."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.turns = Turns(
            asyncio.get_running_loop(),
            begin=lambda: self.noted.append("begin"),
            end=lambda: self.noted.append("end"),
        )
        self._sockets: list[socket.socket] = []

    def readable(self, name: str, then: Callable[[], None] = lambda: None) -> int:
        """A watched socket on which a byte has come; gives its descriptor."""
        near, far = socket.socketpair()
        self._sockets += [near, far]

        def on_readable() -> None:
            self.noted.append(name)
            near.recv(1)
            then()

        self.turns.watch(near.fileno(), on_readable)
        far.send(b"x")
        return near.fileno()

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(_WAIT_S):
            while len(self.noted) < count:
                await asyncio.sleep(0)
        self.turns.close()
        for each in self._sockets:
            each.close()
        return self.noted


def test_sockets_that_are_readable_together_share_a_turn() -> None:
    async def scene() -> list[str]:
        on = Stage()
        for name in "abc":
            on.readable(name)
        return await on.until(5)

    noted = asyncio.run(scene())
    assert noted[0] == "begin"
    assert sorted(noted[1:4]) == ["a", "b", "c"]
    assert noted[4] == "end"


def test_what_is_queued_has_the_next_turn_behind_the_sockets() -> None:
    async def scene() -> list[str]:
        on = Stage()
        on.turns.queue(lambda: on.noted.append("queued"))
        on.turns.queue(lambda: on.turns.queue(lambda: on.noted.append("again")))
        on.readable("a")
        return await on.until(7)

    noted = asyncio.run(scene())
    assert noted == ["begin", "a", "queued", "end", "begin", "again", "end"]


def test_what_threads_tell_shares_a_turn_with_the_sockets() -> None:
    async def scene() -> list[str]:
        on = Stage()
        for name in ("one", "two"):
            thread = Thread(target=on.turns.tell, args=(partial(on.noted.append, name),))
            thread.start()
            thread.join()
        on.readable("a")
        await on.until(5)
        return on.noted

    noted = asyncio.run(scene())
    assert noted[0] == "begin"
    assert sorted(noted[1:4]) == ["a", "one", "two"]
    assert noted[4:] == ["end"]


def test_each_word_of_a_thread_is_heard_once() -> None:
    async def scene() -> list[str]:
        on = Stage()
        on.turns.tell(partial(on.noted.append, "one"))
        async with asyncio.timeout(_WAIT_S):
            while "end" not in on.noted:
                await asyncio.sleep(0)
        on.turns.tell(partial(on.noted.append, "two"))
        await on.until(6)
        await asyncio.sleep(0)
        return on.noted

    assert asyncio.run(scene()) == ["begin", "one", "end", "begin", "two", "end"]


def test_a_socket_that_another_of_its_turn_has_given_up_is_not_heard() -> None:
    async def scene() -> list[str]:
        on = Stage()
        watched: dict[str, int] = {}

        def give_up(other: str) -> None:
            on.turns.unwatch(watched[other])

        watched["a"] = on.readable("a", partial(give_up, "b"))
        watched["b"] = on.readable("b", partial(give_up, "a"))
        await on.until(3)
        return on.noted

    noted = asyncio.run(scene())
    assert noted in (["begin", "a", "end"], ["begin", "b", "end"])


def test_a_turn_is_bounded_and_leaves_nobody_out() -> None:
    async def scene() -> list[str]:
        on = Stage()
        for number in range(2 * MOST_READY):
            on.readable(str(number))
        return await on.until(2 * MOST_READY + 4)

    noted = asyncio.run(scene())
    assert noted[MOST_READY + 1] == "end"
    assert len(set(noted) - {"begin", "end"}) == 2 * MOST_READY


class CountingNode(Node):
    """Says what is received between two settles."""

    def __init__(self, config: NodeConfig, data_dir: Path) -> None:
        super().__init__(config, FileDisk(data_dir), Random(1))
        self.frames_of_turns: list[int] = [0]
        self.times: list[set[float]] = [set()]

    def receive(self, now: Now, event: Event) -> list[Effect]:
        if isinstance(event, FrameReceived):
            self.frames_of_turns[-1] += 1
            self.times[-1].add(now.monotonic_ms)
        return super().receive(now, event)

    def settle(self, now: Now) -> list[Effect]:
        self.frames_of_turns.append(0)
        self.times.append(set())
        return super().settle(now)


def test_a_node_settles_once_for_all_requests_of_a_turn(tmp_path: Path) -> None:
    clients = 20
    frame = encode_request(ApiVersionsRequest(), 0, correlation_id=7, client_id="test")
    nodes: list[CountingNode] = []

    def make_node(config: NodeConfig, data_dir: Path) -> Node:
        nodes.append(CountingNode(config, data_dir))
        return nodes[0]

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        service = Service(loop, ServeOptions(tmp_path, port=0), make_node=make_node)
        service.start()
        address = ("127.0.0.1", service.listener.port)
        async with asyncio.timeout(_WAIT_S):
            streams = [await asyncio.open_connection(*address) for _ in range(clients)]
            while len(nodes[0]._connections) < clients:
                await asyncio.sleep(0)
            for _, writer in streams:  # all of it before the loop looks at a socket again
                writer.write(frame)
            for reader, _ in streams:
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = await reader.readexactly(size)
                assert answer[:4] == (7).to_bytes(4, "big")
        for _, writer in streams:
            writer.close()
        service.kill()
        service.shut_down()

    asyncio.run(scene())
    counts = [count for count in nodes[0].frames_of_turns if count]
    assert sum(counts) == clients
    assert counts == [clients]
    assert max(map(len, nodes[0].times)) == 1

"""Connections on real sockets and a real loop: whose turn it is, and whose memory."""

from __future__ import annotations

import asyncio
import random

from tests.unit.runtime.stage import LARGEST, MB, WAIT_S, frame_of, stage

from tidelog.model.ids import ConnectionId
from tidelog.runtime.connection import TURN_FRAMES


def test_many_pipelined_frames_let_another_connection_have_its_turn() -> None:
    async def scene() -> list[tuple[int, bytes]]:
        with stage() as on:
            busy, quiet = on.connect(), on.connect()
            busy.send(frame_of(b"pipeline") * 500)
            quiet.send(frame_of(b"one only"))
            await on.turns_until(501)
            return on.handed

    handed = asyncio.run(scene())
    place = handed.index((1, b"one only"))
    assert place <= 2 * TURN_FRAMES
    assert len([number for number, _ in handed if number == 0]) == 500


def test_an_expensive_frame_ends_the_turn() -> None:
    """The clock of the loop goes on by a second with each frame."""

    async def scene() -> list[int]:
        with stage() as on:
            now = 0.0
            on.loop.time = lambda: now  # type: ignore[method-assign]

            def costly(number: ConnectionId, frame: memoryview) -> None:
                nonlocal now
                now += 1.0
                on.handed.append((number, bytes(frame)))

            for client in (on.connect(costly), on.connect(costly)):
                client.send(frame_of(b"costly!!") * 5)
            while len(on.handed) < 10:
                await asyncio.sleep(0)
            return [number for number, _ in on.handed]

    assert asyncio.run(scene()) == [0, 1] * 5


def test_frames_wait_for_their_turn_in_order_and_none_is_lost() -> None:
    async def scene() -> list[tuple[int, bytes]]:
        with stage() as on:
            client = on.connect()
            frames = [frame_of(b"%08d" % number) for number in range(3000)]
            await asyncio.gather(on.send(client, b"".join(frames)), on.turns_until(3000))
            return on.handed

    assert asyncio.run(scene()) == [(0, b"%08d" % number) for number in range(3000)]


def test_half_a_frame_is_given_up_with_its_connection_and_its_memory() -> None:
    async def scene() -> tuple[dict[int, str], int, int]:
        with stage() as on:
            client = on.connect()
            whole = on.pool.free_bytes
            await on.send(client, (4 * MB - 10).to_bytes(4, "big") + bytes(MB))
            async with asyncio.timeout(WAIT_S):
                while on.pool.free_bytes > whole - MB // 2:
                    await asyncio.sleep(0)
            for now_ms in (0.0, 29_999.0):
                on.connections[0].look_after(now_ms, timeout_ms=30_000)
                assert not on.lost
            async with asyncio.timeout(WAIT_S):
                while not on.lost:  # some of it may have come in between
                    now_ms += 30_000
                    on.connections[0].look_after(now_ms, timeout_ms=30_000)
                    await asyncio.sleep(0)
            return on.lost, whole, on.pool.free_bytes

    lost, before, after = asyncio.run(scene())
    assert "did not arrive" in lost[0]
    assert before == after


def test_a_buffer_that_is_kept_for_the_next_frame_is_given_up_when_memory_is_short() -> None:
    async def scene() -> tuple[int, int]:
        with stage() as on:
            client = on.connect()
            frame = frame_of(bytes(4 * MB - 10))
            await asyncio.gather(on.send(client, frame * 3), on.turns_until(3))
            others = on.pool.room("others", lambda: None)
            assert others.grow(40 * MB, frame_bytes=LARGEST)
            kept = on.pool.free_bytes
            on.connections[0].look_after(0.0, timeout_ms=30_000)
            return kept, on.pool.free_bytes

    kept, freed = asyncio.run(scene())
    assert freed > kept + 3 * MB


def test_a_connection_that_waits_for_memory_waits_once_though_its_responses_leave() -> None:
    """Each response that has left is a turn of the connection, in which it may ask for memory."""

    async def scene() -> tuple[int, bool, list[tuple[int, bytes]]]:
        with stage(limit=2 * LARGEST) as on:
            holder = on.pool.room("holder", lambda: None)
            assert holder.grow(3 * MB - 1, frame_bytes=1)
            borrower = on.pool.room("borrower", lambda: None)
            assert borrower.grow(3 * MB, frame_bytes=3 * MB)
            client = on.connect()
            large = frame_of(b"produce!" + bytes(3 * MB))
            sending = asyncio.ensure_future(on.send(client, frame_of(b"fetch me") + large))
            async with asyncio.timeout(WAIT_S):
                while not on.pool.has_waiting:
                    await asyncio.sleep(0)
            for _ in range(3):
                response = bytes(4 * MB)  # more than the socket takes at once
                on.connections[0].send([response])
                left = len(response)
                async with asyncio.timeout(WAIT_S):
                    while left:
                        left -= len(await on.loop.sock_recv(client, MB))
                await asyncio.sleep(0)
            waiting = len(on.pool._waiting)
            borrower.close()
            holder.close()
            await sending
            await on.turns_until(2)
            return waiting, on.pool.has_waiting, on.handed

    assert asyncio.run(scene()) == (1, False, [(0, b"fetch me"), (0, b"produce!")])


def test_a_response_that_the_socket_takes_in_parts_leaves_whole_and_in_order() -> None:
    """Of one part, with another behind it."""
    first, second = bytearray(random.Random(1).randbytes(2 * MB)), bytearray(b"second")

    async def scene() -> bytes:
        with stage(limit=64 * MB) as on:
            client = on.connect()
            for response in (first, second):
                on.connections[0].send([response])
            received = b""
            async with asyncio.timeout(WAIT_S):
                while len(received) < len(first) + len(second):
                    received += await on.loop.sock_recv(client, MB)
            return received

    assert asyncio.run(scene()) == bytes(first + second)

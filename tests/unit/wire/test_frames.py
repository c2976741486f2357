"""The receive buffer: limits, growth, shrinking, and who may write where."""

from __future__ import annotations

import struct

import pytest

from tidelog.model.limits import MIN_REQUEST_BYTES
from tidelog.wire.errors import DecodeError
from tidelog.wire.frames import INITIAL_BYTES, KEPT_BYTES, FrameBuffer

LIMIT = 100 * 1024 * 1024


def _receive(buffer: FrameBuffer, data: bytes) -> list[bytes]:
    frames = []
    rest = memoryview(data)
    while rest:
        room = buffer.writable()
        size = min(len(room), len(rest))
        room[:size] = rest[:size]
        buffer.received(size)
        rest = rest[size:]
        while (frame := buffer.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


def _prefixed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("size", [-1, -(2**31), 0, MIN_REQUEST_BYTES - 1, 1001, 2**31 - 1])
def test_a_length_no_request_can_have_is_refused(size: int) -> None:
    buffer = FrameBuffer(1000)
    with pytest.raises(DecodeError):
        _receive(buffer, struct.pack(">i", size))
    assert buffer.capacity == INITIAL_BYTES


def test_a_response_may_be_shorter_than_any_request() -> None:
    buffer = FrameBuffer(1000, min_frame_bytes=4)
    assert _receive(buffer, _prefixed(b"abcd")) == [b"abcd"]


def test_what_is_one_whole_frame_is_given_out_at_once() -> None:
    buffer = FrameBuffer(1000)
    data = _prefixed(bytes(range(100)))
    for _ in range(3):
        buffer.writable()[: len(data)] = data
        frame = buffer.received_one(len(data))
        assert frame is not None
        assert bytes(frame) == bytes(range(100))
        assert buffer.is_at_rest


@pytest.mark.parametrize("received", [b"\0\0", _prefixed(b"x" * 20)[:-1], _prefixed(b"x" * 20) * 2])
def test_what_is_not_one_whole_frame_is_left_to_the_usual_way(received: bytes) -> None:
    buffer = FrameBuffer(1000)
    buffer.writable()[: len(received)] = received
    assert buffer.received_one(len(received)) is None
    assert buffer.pending_bytes == 0


def test_a_frame_behind_the_beginning_of_another_is_not_given_out_alone() -> None:
    buffer = FrameBuffer(1000)
    first = struct.pack(">i", 500)
    buffer.writable()[:4] = first
    buffer.received(4)
    assert buffer.next_frame() is None
    second = _prefixed(b"x" * 20)
    buffer.writable()[: len(second)] = second
    assert buffer.received_one(len(second)) is None


def test_a_length_no_request_can_have_is_not_given_out() -> None:
    for size in (MIN_REQUEST_BYTES - 1, 1001):
        buffer = FrameBuffer(1000)
        data = _prefixed(bytes(size))
        buffer.writable()[: len(data)] = data
        assert buffer.received_one(len(data)) is None


def test_a_frame_of_exactly_the_limit_passes() -> None:
    assert _receive(FrameBuffer(1000), _prefixed(bytes(1000))) == [bytes(1000)]


def test_a_claimed_length_allocates_nothing() -> None:
    buffer = FrameBuffer(LIMIT)
    _receive(buffer, struct.pack(">i", LIMIT) + bytes(100))
    buffer.writable()
    assert buffer.capacity == INITIAL_BYTES


def test_memory_grows_with_what_has_arrived() -> None:
    buffer = FrameBuffer(LIMIT)
    _receive(buffer, struct.pack(">i", LIMIT))
    arrived = 4
    for _ in range(200):
        _receive(buffer, bytes(10_000))
        arrived += 10_000
        assert buffer.capacity <= max(4 * INITIAL_BYTES, 2 * arrived)


def test_a_large_frame_ends_where_the_writable_part_ends() -> None:
    buffer = FrameBuffer(LIMIT)
    body = bytes(1024 * 1024)
    whole = _prefixed(body)
    _receive(buffer, whole)
    assert buffer.capacity == len(whole)
    for _ in range(3):
        room = buffer.writable()
        room[:1000] = whole[:1000]
        buffer.received(1000)
        assert buffer.next_frame() is None
        assert len(buffer.writable()) == len(whole) - 1000
        assert _receive(buffer, whole[1000:]) == [body]
    assert buffer.capacity == len(whole)


def test_a_very_large_buffer_is_given_up_once_it_is_empty() -> None:
    buffer = FrameBuffer(LIMIT)
    _receive(buffer, _prefixed(bytes(KEPT_BYTES + 1)))
    assert buffer.capacity > KEPT_BYTES
    buffer.writable()
    assert buffer.capacity == INITIAL_BYTES


def test_a_large_buffer_shrinks_after_a_while_of_small_frames() -> None:
    buffer = FrameBuffer(LIMIT)
    _receive(buffer, _prefixed(bytes(1024 * 1024)))
    assert buffer.capacity > 1024 * 1024
    for _ in range(100):
        _receive(buffer, _prefixed(bytes(100)))
    assert buffer.capacity == INITIAL_BYTES


def test_many_small_frames_at_once_earn_more_room() -> None:
    buffer = FrameBuffer(LIMIT)
    frames = _receive(buffer, _prefixed(bytes(100)) * 1000)
    assert len(frames) == 1000
    assert INITIAL_BYTES < buffer.capacity <= 64 * 1024


def test_a_frame_is_writable_and_lies_in_the_buffer() -> None:
    buffer = FrameBuffer(1000)
    room = buffer.writable()
    room[:14] = _prefixed(b"0123456789")
    buffer.received(14)
    frame = buffer.next_frame()
    assert frame is not None
    frame[0:1] = b"X"
    assert bytes(room[4:6]) == b"X1"


def test_frames_not_taken_yet_survive_further_bytes() -> None:
    buffer = FrameBuffer(LIMIT)
    bodies = [bytes([n]) * 30_000 for n in range(4)]
    rest = memoryview(b"".join(_prefixed(body) for body in bodies))
    while rest:
        room = buffer.writable()
        size = min(len(room), len(rest))
        room[:size] = rest[:size]
        buffer.received(size)
        rest = rest[size:]
    assert [bytes(buffer.next_frame() or b"") for _ in bodies] == bodies
    assert buffer.next_frame() is None


def test_the_writable_part_is_never_empty_even_with_a_large_frame_complete() -> None:
    buffer = FrameBuffer(LIMIT)
    whole = _prefixed(bytes(200_000))
    rest = memoryview(whole)
    while rest:
        room = buffer.writable()
        size = min(len(room), len(rest))
        room[:size] = rest[:size]
        buffer.received(size)
        if len(rest) > size:
            assert buffer.next_frame() is None
        rest = rest[size:]
    assert len(buffer.writable()) > 0
    assert bytes(buffer.next_frame() or b"") == bytes(200_000)

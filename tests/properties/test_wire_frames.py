"""However the bytes of a connection are cut into chunks, the same frames come out."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.model.limits import MIN_REQUEST_BYTES
from tidelog.wire.errors import DecodeError
from tidelog.wire.frames import INITIAL_BYTES, KEPT_BYTES, FrameBuffer

sizes = st.one_of(
    st.integers(MIN_REQUEST_BYTES, 100),
    st.integers(1_000, 40_000),
    st.integers(INITIAL_BYTES - 8, INITIAL_BYTES + 8),
    st.integers(60_000, 300_000),
)
chunks = st.one_of(st.integers(1, 20), st.integers(1_000, 70_000), st.just(10_000_000))

LIMIT = 400_000


def _frame(size: int, seed: int) -> bytes:
    return bytes((seed + index) % 251 for index in range(8)) + bytes([seed % 256]) * (size - 8)


def _feed(buffer: FrameBuffer, stream: memoryview, chunk: int) -> tuple[list[bytes], memoryview]:
    room = buffer.writable()
    assert len(room) > 0
    size = min(len(room), chunk, len(stream))
    room[:size] = stream[:size]
    frames = []
    only = buffer.received_one(size)
    if only is None:
        buffer.received(size)
    else:
        frames.append(bytes(only))
    while (frame := buffer.next_frame()) is not None:
        frames.append(bytes(frame))
    return frames, stream[size:]


@given(
    frame_sizes=st.lists(sizes, max_size=12),
    chunk_sizes=st.lists(chunks, min_size=1, max_size=20),
)
@settings(max_examples=200, deadline=None)
def test_any_chunking_gives_the_same_frames(frame_sizes: list[int], chunk_sizes: list[int]) -> None:
    frames = [_frame(size, seed) for seed, size in enumerate(frame_sizes)]
    stream = memoryview(b"".join(struct.pack(">i", len(f)) + f for f in frames))
    buffer = FrameBuffer(LIMIT)
    found: list[bytes] = []
    turn = sent = 0
    while stream:
        chunk = max(chunk_sizes[turn % len(chunk_sizes)], len(stream) // 2_000)
        before = len(stream)
        some, stream = _feed(buffer, stream, chunk)
        found += some
        sent += before - len(stream)
        turn += 1
        assert buffer.capacity <= max(4 * sent, 4 * INITIAL_BYTES)
        assert buffer.capacity <= max(2 * LIMIT, KEPT_BYTES)
    assert found == frames
    assert buffer.pending_bytes == 0


@given(noise=st.binary(max_size=2_000), chunk=st.integers(1, 500))
@settings(max_examples=200, deadline=None)
def test_noise_gives_frames_or_a_decode_error(noise: bytes, chunk: int) -> None:
    buffer = FrameBuffer(1_000)
    stream = memoryview(noise)
    try:
        while stream:
            _, stream = _feed(buffer, stream, chunk)
    except DecodeError:
        pass
    assert buffer.capacity == INITIAL_BYTES

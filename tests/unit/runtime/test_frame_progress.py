"""A frame that has begun gets on, or its connection is closed. Time is a number here."""

from __future__ import annotations

from tidelog.runtime.frame_progress import SHORTAGE_MS, STEP_BYTES, FrameProgress

_TIMEOUT_MS = 30_000


def is_too_slow(progress: FrameProgress, now_ms: float, *, is_short: bool = False) -> bool:
    return progress.is_too_slow(now_ms, timeout_ms=_TIMEOUT_MS, is_short=is_short)


def test_a_frame_that_stands_still_is_too_slow_after_the_timeout() -> None:
    progress = FrameProgress()
    for now_ms in range(0, _TIMEOUT_MS, 1000):
        progress.look(now_ms, frame=0, received_bytes=100)
        assert not is_too_slow(progress, now_ms)
    assert is_too_slow(progress, _TIMEOUT_MS)


def test_a_byte_now_and_then_is_no_progress() -> None:
    progress = FrameProgress()
    for now_ms in range(0, _TIMEOUT_MS + 1, 1000):
        progress.look(now_ms, frame=0, received_bytes=now_ms // 1000)
    assert is_too_slow(progress, _TIMEOUT_MS)


def test_a_large_frame_takes_as_long_as_it_takes_while_it_gets_on() -> None:
    progress = FrameProgress()
    for number in range(100):
        now_ms = number * (_TIMEOUT_MS - 1)
        progress.look(now_ms, frame=0, received_bytes=number * STEP_BYTES)
        assert not is_too_slow(progress, now_ms)


def test_the_next_frame_has_the_whole_time_again() -> None:
    progress = FrameProgress()
    progress.look(0, frame=0, received_bytes=100)
    progress.look(_TIMEOUT_MS - 1, frame=1, received_bytes=100)
    assert not is_too_slow(progress, 2 * _TIMEOUT_MS - 2)
    assert is_too_slow(progress, 2 * _TIMEOUT_MS - 1)


def test_time_in_which_the_node_does_not_read_does_not_count() -> None:
    progress = FrameProgress()
    progress.look(0, frame=0, received_bytes=100)
    progress.forget()
    assert not is_too_slow(progress, 10 * _TIMEOUT_MS, is_short=True)
    progress.look(10 * _TIMEOUT_MS, frame=0, received_bytes=100)
    assert not is_too_slow(progress, 11 * _TIMEOUT_MS - 1)


def test_while_others_wait_for_memory_a_frame_that_holds_some_must_keep_growing() -> None:
    progress = FrameProgress()
    progress.look(0, frame=0, received_bytes=100)
    progress.look(SHORTAGE_MS, frame=0, received_bytes=101)
    assert not is_too_slow(progress, SHORTAGE_MS, is_short=True)
    progress.look(2 * SHORTAGE_MS, frame=0, received_bytes=101)
    assert is_too_slow(progress, 2 * SHORTAGE_MS, is_short=True)
    assert not is_too_slow(progress, 2 * SHORTAGE_MS)

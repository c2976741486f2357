"""What a leader knows of a follower's progress when a fetch session speaks for it."""

from __future__ import annotations

from tidelog.model.ids import NodeId, Offset
from tidelog.partition.progress import LastFetch, Progress


def fetched(
    progress: Progress, offset: int, *, end: int, now_ms: float, session: LastFetch | None = None
) -> None:
    progress.note(
        Offset(offset),
        leader_end=Offset(end),
        now_ms=now_ms,
        broker_epoch=20,
        log_start_offset=Offset(0),
        session=session,
    )
    if session is not None:
        session.at_ms = now_ms


def test_who_had_everything_is_caught_up_for_as_long_as_its_session_is_used() -> None:
    progress, session = Progress(NodeId(2), now_ms=0), LastFetch()
    fetched(progress, 5, end=5, now_ms=100, session=session)
    session.at_ms = 90_000
    assert (progress.caught_up_ms, progress.fetched_ms) == (90_000, 90_000)


def test_who_lacked_something_is_heard_of_and_not_caught_up() -> None:
    progress, session = Progress(NodeId(2), now_ms=0), LastFetch()
    fetched(progress, 4, end=5, now_ms=100, session=session)
    session.at_ms = 90_000
    assert (progress.caught_up_ms, progress.fetched_ms) == (0, 90_000)


def test_it_was_caught_up_until_the_last_fetch_before_the_log_grew() -> None:
    progress, session = Progress(NodeId(2), now_ms=0), LastFetch()
    fetched(progress, 5, end=5, now_ms=100, session=session)
    session.at_ms = 90_000
    fetched(progress, 5, end=6, now_ms=90_500, session=session)
    session.at_ms = 99_000
    assert progress.caught_up_ms == 90_000


def test_a_session_that_speaks_for_it_no_longer_does_not_count_on() -> None:
    progress, session, other = Progress(NodeId(2), now_ms=0), LastFetch(), LastFetch()
    fetched(progress, 5, end=5, now_ms=100, session=session)
    session.at_ms = 500
    progress.fell_silent(other)
    session.at_ms = 600
    progress.fell_silent(session)
    session.at_ms = 90_000
    assert (progress.caught_up_ms, progress.fetched_ms, progress.is_close) == (600, 600, True)


def test_the_session_that_spoke_last_counts() -> None:
    progress, session, other = Progress(NodeId(2), now_ms=0), LastFetch(), LastFetch()
    fetched(progress, 5, end=5, now_ms=100, session=session)
    fetched(progress, 5, end=5, now_ms=200, session=other)
    session.at_ms = 90_000
    assert progress.caught_up_ms == 200
    fetched(progress, 5, end=5, now_ms=300)
    other.at_ms = 90_000
    assert progress.caught_up_ms == 300


def test_a_first_fetch_is_close_when_its_session_goes_on() -> None:
    progress, session = Progress(NodeId(2), now_ms=0), LastFetch()
    fetched(progress, 5, end=5, now_ms=100, session=session)
    assert not progress.is_close
    session.at_ms = 200
    assert progress.is_close

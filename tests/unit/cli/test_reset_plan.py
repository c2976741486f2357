"""Where a group is moved to, for every way of saying it."""

from __future__ import annotations

import pytest

from tidelog.cli.reset_plan import Move, ResetPoint, Shift, parse_reset, plan_moves
from tidelog.cli.start_point import StartPoint
from tidelog.client.admin import Offsets
from tidelog.model.ids import TopicPartition

NOW_MS = 1_700_000_000_000
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
SPANS = {P1: Offsets(0, 5), P0: Offsets(10, 100)}
COMMITTED = {P0: 40}


def moves(point: ResetPoint, **at_time: int) -> dict[int, tuple[int | None, int, bool]]:
    found = plan_moves(
        point,
        spans=SPANS,
        committed=COMMITTED,
        offset_at=lambda place: at_time[f"p{place.partition}"],
    )
    assert [move.partition for move in found] == [P0, P1]
    return {move.partition.partition: (move.old, move.new, move.is_bounded) for move in found}


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("earliest", StartPoint("beginning")),
        ("beginning", StartPoint("beginning")),
        ("latest", StartPoint("end")),
        ("end", StartPoint("end")),
        ("17", StartPoint("offset", 17)),
        ("+17", Shift(17)),
        ("-17", Shift(-17)),
        ("10s", StartPoint("time", NOW_MS - 10_000)),
        ("2023-11-14T22:13:20+00:00", StartPoint("time", NOW_MS)),
    ],
)
def test_every_way_to_say_where_is_understood(text: str, point: ResetPoint) -> None:
    assert parse_reset(text, now_ms=NOW_MS) == point


@pytest.mark.parametrize("text", ["", "nowhere", "1.5", "--5", "+", "5-", "2023-13-01"])
def test_what_says_nothing_is_refused_with_all_that_would(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be earliest, latest, an offset, .* or -N records"):
        parse_reset(text, now_ms=NOW_MS)


def test_the_beginning_is_where_each_log_begins() -> None:
    assert moves(StartPoint("beginning")) == {0: (40, 10, False), 1: (None, 0, False)}


def test_the_end_is_where_each_log_ends() -> None:
    assert moves(StartPoint("end")) == {0: (40, 100, False), 1: (None, 5, False)}


def test_an_offset_is_bounded_by_each_log() -> None:
    assert moves(StartPoint("offset", 7)) == {0: (40, 10, True), 1: (None, 5, True)}


def test_a_time_is_asked_for() -> None:
    point = StartPoint("time", NOW_MS)
    assert moves(point, p0=50, p1=5) == {0: (40, 50, False), 1: (None, 5, False)}


@pytest.mark.parametrize(
    ("records", "new", "is_bounded"), [(5, 45, False), (-5, 35, False), (-50, 10, True)]
)
def test_a_shift_counts_from_what_is_committed(records: int, new: int, is_bounded: bool) -> None:
    found = plan_moves(
        Shift(records), spans={P0: SPANS[P0]}, committed=COMMITTED, offset_at=lambda _: 0
    )
    assert found == [Move(P0, 40, new, is_bounded)]


def test_a_shift_of_nothing_committed_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing is committed for partition 1 of 'orders'"):
        moves(Shift(-1))


def test_a_move_knows_its_change() -> None:
    assert Move(P0, 40, 10).change == -30
    assert Move(P0, None, 10).change is None

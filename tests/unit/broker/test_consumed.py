"""What all groups have read counts once their commits can't be lost."""

from __future__ import annotations

from tidelog.broker.consumed import ConsumedOffset
from tidelog.model.ids import Offset


def at(*offsets: int) -> dict[int, Offset]:
    return {number: Offset(offset) for number, offset in enumerate(offsets)}


def test_what_is_committed_counts_at_once() -> None:
    assert ConsumedOffset().advance(Offset(7), at(3, 5), at(3, 5)) == 7


def test_what_is_not_committed_does_not_count() -> None:
    consumed = ConsumedOffset()
    assert consumed.advance(Offset(7), at(3, 5), at(3, 4)) is None
    assert consumed.advance(Offset(8), at(4, 5), at(3, 4)) is None


def test_an_earlier_offset_counts_when_it_is_committed_though_later_ones_are_not() -> None:
    consumed = ConsumedOffset()
    assert consumed.advance(Offset(7), at(3), at(2)) is None
    assert consumed.advance(Offset(9), at(5), at(3)) == 7
    assert consumed.advance(Offset(12), at(8), at(6)) == 9
    assert consumed.advance(Offset(13), at(9), at(7)) == 9


def test_a_group_that_goes_back_takes_the_others_with_it() -> None:
    consumed = ConsumedOffset()
    assert consumed.advance(Offset(7), at(3), at(3)) == 7
    assert consumed.advance(Offset(2), at(4), at(3)) == 2


def test_a_partition_of_the_offsets_topic_that_is_gone_proves_nothing() -> None:
    consumed = ConsumedOffset()
    assert consumed.advance(Offset(7), at(3, 1), at(2, 1)) is None
    assert consumed.advance(Offset(7), at(3, 1), at(9)) is None

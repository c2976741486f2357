"""Every offset exactly once, whatever the limits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.model.ids import TopicPartition
from tidelog.spark.offsets import StreamOffsets, ranges_between
from tidelog.spark.planner import OffsetRange, plan_limited, plan_splits
from tidelog.spark.stream_plan import Horizon, Limits, plan_end

numbers = st.integers(min_value=0, max_value=60)


@st.composite
def offset_ranges(draw: st.DrawFn) -> list[OffsetRange]:
    places = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), unique=True))
    ranges = []
    for topic, partition in places:
        start = draw(numbers)
        ranges.append(OffsetRange(topic, partition, start, start + draw(numbers)))
    return ranges


def offsets_in(ranges: list[OffsetRange]) -> list[tuple[str, int, int]]:
    return sorted(
        (each.topic, each.partition, offset)
        for each in ranges
        for offset in range(each.start, each.end)
    )


@settings(deadline=None)
@given(
    offset_ranges(),
    st.none() | st.integers(1, 200),
    st.none() | st.integers(1, 70),
)
def test_splits_hold_every_offset_exactly_once(
    ranges: list[OffsetRange], least: int | None, most: int | None
) -> None:
    splits = plan_splits(ranges, min_partitions=least, max_records_per_partition=most)
    wanted = offsets_in(ranges)
    assert offsets_in([split.offsets for split in splits]) == wanted
    assert all(split.end > split.start for split in splits)
    assert splits == sorted(splits)
    if most is not None:
        assert all(split.end - split.start <= most for split in splits)
    if least is not None:
        assert len(splits) >= min(least, len(wanted))


@settings(deadline=None)
@given(offset_ranges(), st.integers(1, 200))
def test_a_limit_is_used_up_and_never_exceeded(ranges: list[OffsetRange], most: int) -> None:
    ends = plan_limited(ranges, max_records=most)
    total = sum(each.count for each in ranges)
    read = sum(ends[each.place] - each.start for each in ranges)
    assert read == min(most, total)
    assert all(each.start <= ends[each.place] <= each.end for each in ranges)
    filled = [each for each in ranges if each.count]
    if most >= len(filled):
        assert all(ends[each.place] > each.start for each in filled)


@settings(deadline=None)
@given(st.data(), st.none() | st.integers(1, 15))
def test_a_stream_reads_every_offset_exactly_once_while_topics_grow(
    data: st.DataObject, most: int | None
) -> None:
    last: dict[TopicPartition, int] = {TopicPartition("a", 0): 0}
    ids = {"a": "1"}
    position = StreamOffsets(dict(last), ids)
    seen: list[OffsetRange] = []

    def run_batches(limits: Limits) -> None:
        nonlocal position
        horizon = Horizon(dict.fromkeys(last, 0), dict(last), ids)
        while (end := plan_end(position, horizon, limits)) is not position:
            # A crash between planning and reading: the same two offsets give the same ranges.
            written = StreamOffsets.from_json(end.to_json())
            seen.extend(ranges_between(StreamOffsets.from_json(position.to_json()), written))
            position = end

    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            last[TopicPartition("a", len(last))] = 0
        for place in last:
            last[place] += data.draw(st.integers(0, 20))
        run_batches(Limits(max_records=most))
    everything = [OffsetRange(*place, 0, end) for place, end in last.items()]
    assert offsets_in(seen) == offsets_in(everything)

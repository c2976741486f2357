"""Server-side assignors: everything is assigned, once, evenly, and with few moves."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.groups.assignors import (
    ASSIGNORS,
    Assignor,
    Subscriber,
    assign_range,
    assign_uniform,
)
from tidelog.groups.consumer_group import NOTHING, Partitions
from tidelog.model.ids import PartitionKey, TopicId

topic_ids = st.integers(1, 4).map(lambda number: UUID(int=number))
counts = st.dictionaries(topic_ids, st.integers(0, 7), max_size=4)
interests = st.frozensets(topic_ids, max_size=4)
members = st.dictionaries(st.sampled_from("abcdefg"), interests, max_size=7)


def subscribers(
    wanted: Mapping[str, frozenset[UUID]], previous: Mapping[str, Partitions] | None = None
) -> dict[str, Subscriber]:
    before = previous or {}
    return {name: Subscriber(topics, before.get(name, NOTHING)) for name, topics in wanted.items()}


@pytest.mark.parametrize("assignor", list(ASSIGNORS.values()), ids=list(ASSIGNORS))
@given(wanted=members, counts=counts, former=members)
def test_every_partition_has_one_owner_who_wants_it(
    assignor: Assignor,
    wanted: dict[str, frozenset[UUID]],
    counts: dict[UUID, int],
    former: dict[str, frozenset[UUID]],
) -> None:
    previous = assignor(subscribers(former), counts)
    shares = assignor(subscribers(wanted, previous), counts)
    assert set(shares) == set(wanted)
    given_out = [partition for share in shares.values() for partition in sorted(share)]
    assert len(given_out) == len(set(given_out))
    for name, share in shares.items():
        assert all(partition.topic_id in wanted[name] for partition in share)
    read = frozenset[UUID]().union(*wanted.values())
    expected = {
        PartitionKey(TopicId(topic_id), number)
        for topic_id, count in counts.items()
        if topic_id in read
        for number in range(count)
    }
    assert set(given_out) == expected


@given(wanted=members, counts=counts, former=members)
def test_uniform_leaves_nobody_with_two_more_than_another_could_take(
    wanted: dict[str, frozenset[UUID]],
    counts: dict[UUID, int],
    former: dict[str, frozenset[UUID]],
) -> None:
    previous = assign_uniform(subscribers(former), counts)
    shares = assign_uniform(subscribers(wanted, previous), counts)
    for share in shares.values():
        for partition in share:
            for other, theirs in shares.items():
                if partition.topic_id in wanted[other]:
                    assert len(share) <= len(theirs) + 1


@given(wanted=members, counts=counts)
def test_uniform_moves_nothing_when_nothing_changes(
    wanted: dict[str, frozenset[UUID]], counts: dict[UUID, int]
) -> None:
    shares = assign_uniform(subscribers(wanted), counts)
    assert assign_uniform(subscribers(wanted, shares), counts) == shares


@given(
    names=st.sets(st.sampled_from("abcdefg"), min_size=2),
    topics=st.frozensets(topic_ids, min_size=1),
    counts=counts,
    data=st.data(),
)
@settings(max_examples=60)
def test_uniform_moves_only_what_balance_demands(
    names: set[str], topics: frozenset[UUID], counts: dict[UUID, int], data: st.DataObject
) -> None:
    """A member leaves: the others keep all they had. One comes: only its share moves."""
    wanted = dict.fromkeys(sorted(names), topics)
    before = assign_uniform(subscribers(wanted), counts)
    gone = data.draw(st.sampled_from(sorted(names)))
    rest = {name: topics for name in wanted if name != gone}
    after = assign_uniform(subscribers(rest, before), counts)
    assert all(before[name] <= after[name] for name in rest)
    again = assign_uniform(subscribers({**rest, "new": topics}, after), counts)
    assert sum(len(after[name] - again[name]) for name in rest) == len(again["new"])


@given(wanted=members, counts=counts)
def test_range_gives_neighbours(
    wanted: dict[str, frozenset[UUID]], counts: dict[UUID, int]
) -> None:
    for share in assign_range(subscribers(wanted), counts).values():
        for topic_id in {partition.topic_id for partition in share}:
            numbers = sorted(p.partition for p in share if p.topic_id == topic_id)
            assert numbers == list(range(numbers[0], numbers[-1] + 1))


@given(topics=st.frozensets(topic_ids, min_size=2), count=st.integers(0, 9))
def test_range_gives_the_same_numbers_of_topics_alike(topics: frozenset[UUID], count: int) -> None:
    wanted = dict.fromkeys("abc", topics)
    shares = assign_range(subscribers(wanted), dict.fromkeys(topics, count))
    for share in shares.values():
        numbers = {
            tuple(sorted(p.partition for p in share if p.topic_id == topic_id))
            for topic_id in topics
        }
        assert len(numbers) == 1


def test_range_puts_static_members_first_whatever_their_ids() -> None:
    topic = UUID(int=1)
    wanted = {
        "a": Subscriber(frozenset((topic,)), NOTHING),
        "z": Subscriber(frozenset((topic,)), NOTHING, instance_id="1"),
    }
    shares = assign_range(wanted, {topic: 2})
    assert [partition.partition for partition in shares["z"]] == [0]

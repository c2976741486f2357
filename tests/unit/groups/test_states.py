"""The tables of states: complete, drawn in the documentation, and true."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.group_driver import FixedTopics, GroupDriver

from tidelog.groups import consumer_group, diagrams, group
from tidelog.groups.consumer_group import ConsumerGroup, ConsumerState, MemberState
from tidelog.groups.group import ClassicState
from tidelog.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    GroupMetadataKey,
    OffsetCommitKey,
    read_record,
)
from tidelog.model.errors import ErrorCode

DOCUMENT = Path(__file__).parents[3] / "docs" / "rebalance.md"


def test_the_diagrams_in_the_documentation_are_current() -> None:
    document = DOCUMENT.read_text()
    assert diagrams.up_to_date(document) == document, "run python -m tests.unit.groups.test_states"


def test_every_state_has_a_meaning_and_a_way_in() -> None:
    tables: list[tuple[Any, Any, Any, Any]] = [
        (ClassicState, group.MEANING, group.TRANSITIONS, ClassicState.EMPTY),
        (ConsumerState, consumer_group.MEANING, consumer_group.TRANSITIONS, ConsumerState.EMPTY),
        (
            MemberState,
            consumer_group.MEMBER_MEANING,
            consumer_group.MEMBER_TRANSITIONS,
            MemberState.STABLE,
        ),
    ]
    for states, meanings, transitions, first in tables:
        assert set(meanings) == set(states)
        assert {target for _, target in transitions} | {first} == set(states)


def walk(seed: int) -> GroupDriver:
    """Joins, heartbeats, departures and time over a group of the newer protocol, at random."""
    luck = Random(seed)
    driver = GroupDriver(FixedTopics(orders=5))
    driver.commit(1)
    epochs: dict[str, int] = {}
    for _ in range(80):
        name = luck.choice("abcd")
        action = luck.choice(["beat", "beat", "beat", "report", "leave", "time"])
        if name not in epochs:
            answer = driver.enter(name)
        elif action == "leave":
            driver.pulse(name, -1)
            del epochs[name]
            continue
        elif action == "time":
            driver.advance(luck.choice([1_000, 20_000]))
            continue
        else:
            owned = driver.has("g", name) if action == "report" else None
            answer = driver.pulse(name, epochs[name], owned=owned)
        if answer.error_code is ErrorCode.NONE:
            epochs[name] = answer.member_epoch
        else:
            del epochs[name]
    return driver


@pytest.mark.parametrize("seed", range(12))
def test_newer_groups_and_their_members_change_their_state_as_the_tables_say(seed: int) -> None:
    driver = walk(seed)
    before, groups = ConsumerState.EMPTY, ConsumerGroup("g")
    members: dict[str, MemberState] = {}
    for batch in driver.batches:
        for key, value in filter(None, (read_record(*record[:3]) for record in batch)):
            if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
                was = members.pop(key.member_id, MemberState.STABLE)
                now = MemberState.STABLE if value is None else MemberState(value.state)
                if value is not None:
                    members[key.member_id] = now
                    assert now is was or (was, now) in consumer_group.MEMBER_TRANSITIONS
            if not isinstance(key, OffsetCommitKey | GroupMetadataKey):
                groups.apply(key, value)
        assert groups.state is before or (before, groups.state) in consumer_group.TRANSITIONS
        before = groups.state


if __name__ == "__main__":
    DOCUMENT.write_text(diagrams.up_to_date(DOCUMENT.read_text()))

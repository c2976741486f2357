"""Members that go without a word: what they owned is given to others, and they may come back.

Sessions are short, so on a slow machine a member may be given up by mistake: then something is read
twice, and nothing is wrong with that. What counts is that all is read, and who has what in the end.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.compat.clients import confluent
from tests.compat.clients.members import KINDS, Group
from tests.compat.clients.message import Message
from tests.compat.conftest import MakeTopic

SESSION_TIMEOUT_MS = 3000
NODE_ARGUMENTS = (
    "--set=group.min.session.timeout.ms=500",
    f"--set=group.consumer.session.timeout.ms={SESSION_TIMEOUT_MS}",
    "--set=group.consumer.heartbeat.interval.ms=200",
)
PARTITIONS = 6

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def group(bootstrap: str, make_topic: MakeTopic) -> Iterator[Group]:
    """A group without members yet, for a topic of six partitions."""
    topic = make_topic(PARTITIONS)
    with Group(bootstrap, f"group-of-{topic}", [topic]) as group:
        yield group


def write(group: Group, numbers: range) -> None:
    messages = [Message(str(each).encode(), partition=each % PARTITIONS) for each in numbers]
    confluent.ConfluentKafka().write(group.bootstrap, group.topics[0], messages)


def texts(numbers: range) -> list[str]:
    return [str(each) for each in numbers]


@every_kind
def test_what_a_killed_member_owned_is_given_to_the_others(group: Group, kind: str) -> None:
    survivor = group.join(kind)
    mortal = group.join_as_process(kind, session_timeout_ms=SESSION_TIMEOUT_MS)
    group.shares(PARTITIONS, survivor, mortal)
    write(group, range(60))
    group.has_read_at_least(texts(range(60)))
    mortal.leave()
    group.shares(PARTITIONS, survivor)
    write(group, range(60, 120))
    group.has_read_at_least(texts(range(120)))


@every_kind
def test_a_paused_member_loses_its_partitions_and_comes_back(group: Group, kind: str) -> None:
    steady = group.join(kind)
    sleepy = group.join_as_process(kind, session_timeout_ms=SESSION_TIMEOUT_MS)
    group.shares(PARTITIONS, steady, sleepy)
    write(group, range(60))
    group.has_read_at_least(texts(range(60)))
    sleepy.pause()
    group.shares(PARTITIONS, steady)
    sleepy.go_on()
    group.shares(PARTITIONS, steady, sleepy)
    write(group, range(60, 120))
    group.has_read_at_least(texts(range(120)))

"""A group rolls from eager to cooperative rebalancing, member by member, while it works (KIP-429).

The members follow the Java consumer's rules (`clients/java_like.py`). At either end of the roll
there is a real client among them: one that knows the old assignor only, one that knows the new one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.compat.clients import confluent
from tests.compat.clients.java_like import COOPERATIVE, RANGE, JavaLikeMember
from tests.compat.clients.members import Group
from tests.compat.clients.message import Message
from tests.compat.conftest import MakeTopic
from tests.support.eventually import attempts
from tests.support.node_process import RunningNode

NODE_ARGUMENTS = ("--set=group.initial.rebalance.delay.ms=0",)
PARTITIONS = 6
MEMBERS = 3


class Roll:
    """The members, driven by one thread; and every number that was written."""

    def __init__(self, node: RunningNode, topic: str) -> None:
        self.node = node
        self.topic = topic
        self.name = f"group-of-{topic}"
        self.members: list[JavaLikeMember] = []
        self.gone: list[JavaLikeMember] = []
        self.written: list[str] = []
        self.real: Group | None = None

    def join(self, *assignors: str) -> None:
        member = JavaLikeMember(self.node, self.name, self.topic, PARTITIONS, assignors)
        self.members.append(member)

    def replace_oldest(self, *assignors: str) -> None:
        """One step of a roll: a member stops, and one of the new kind comes."""
        old = self.members.pop(0)
        old.leave()
        self.gone.append(old)
        self.join(*assignors)

    def write(self, count: int) -> None:
        numbers = range(len(self.written), len(self.written) + count)
        messages = [Message(str(each).encode(), partition=each % PARTITIONS) for each in numbers]
        confluent.ConfluentKafka().write(self.node.bootstrap, self.topic, messages)
        self.written += [str(each) for each in numbers]

    def settle(self) -> None:
        """Until every partition is one member's and all that was written has been read."""
        for _ in attempts("a settled group that has read everything"):
            for member in self.members:
                member.step()
            if self._is_settled() and len(self.read()) >= len(self.written):
                break
        assert sorted(self.read()) == sorted(self.written), "something was read twice"

    def _is_settled(self) -> bool:
        real = [] if self.real is None else self.real.members
        owned = [number for member in self.members for number in member.owned]
        owned += [tp.partition for member in real for tp in member.owned]
        shares = [len(member.owned) for member in (*self.members, *real)]
        is_shared = sorted(owned) == list(range(PARTITIONS)) and max(shares) - min(shares) <= 1
        return is_shared and all(member.is_settled for member in self.members)

    def read(self) -> list[str]:
        real = [] if self.real is None else self.real.values()
        return [*real, *(value for one in (*self.gone, *self.members) for value in one.read)]

    def protocols(self) -> list[str]:
        return [member.protocol for member in self.members]


@pytest.fixture
def roll(shared_node: RunningNode, make_topic: MakeTopic) -> Iterator[Roll]:
    rolling = Roll(shared_node, make_topic(PARTITIONS))
    yield rolling
    for member in rolling.members:
        member.leave()


def test_a_group_rolls_from_eager_to_cooperative_and_reads_everything_once(roll: Roll) -> None:
    for _ in range(MEMBERS):
        roll.join(RANGE)
    roll.write(60)
    roll.settle()
    assert roll.protocols() == [RANGE] * MEMBERS
    for step in range(MEMBERS):
        roll.replace_oldest(COOPERATIVE, RANGE)
        roll.write(60)
        roll.settle()
        # As long as one of them knows the old one only, that is what all can do.
        expected = RANGE if step < MEMBERS - 1 else COOPERATIVE
        assert roll.protocols() == [expected] * MEMBERS
    for _ in range(MEMBERS):
        roll.replace_oldest(COOPERATIVE)
        roll.write(60)
        roll.settle()
        assert roll.protocols() == [COOPERATIVE] * MEMBERS


def test_the_way_back_is_the_same(roll: Roll) -> None:
    for assignors in ((COOPERATIVE,), (COOPERATIVE, RANGE), (RANGE,)):
        for _ in range(MEMBERS):
            if len(roll.members) < MEMBERS:
                roll.join(*assignors)
            else:
                roll.replace_oldest(*assignors)
            roll.write(30)
            roll.settle()
    assert roll.protocols() == [RANGE] * MEMBERS


@pytest.mark.parametrize(
    ("kind", "protocol"), [("confluent-eager", RANGE), ("confluent-cooperative", COOPERATIVE)]
)
def test_members_that_know_both_work_with_a_real_client_that_knows_one(
    roll: Roll, kind: str, protocol: str
) -> None:
    for _ in range(2):
        roll.join(COOPERATIVE, RANGE)
    roll.write(60)
    roll.settle()
    with Group(roll.node.bootstrap, roll.name, [roll.topic]) as real:
        roll.real = real
        real.join(kind)
        roll.write(60)
        roll.settle()
        assert roll.protocols() == [protocol] * 2
        roll.write(60)
        roll.settle()

"""Groups of real clients: who reads what, through joins, leaves, deaths and restarts.

Every message is a number, written once. A group has done its work when each number was read, and,
wherever members come and go in order, when none was read twice: they commit before they give
partitions back. Sessions are long here, so that nobody is given up who is only slow; those who are
given up have a file of their own (`test_lost_members.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.compat.clients import confluent
from tests.compat.clients.kcat import kcat
from tests.compat.clients.members import KINDS, Group
from tests.compat.clients.message import Message
from tests.compat.conftest import MakeTopic

NODE_ARGUMENTS = (
    "--set=group.min.session.timeout.ms=500",
    "--set=group.consumer.heartbeat.interval.ms=200",
)
PARTITIONS = 6
WRITER = confluent.ConfluentKafka()

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def group(bootstrap: str, make_topic: MakeTopic) -> Iterator[Group]:
    """A group without members yet, for a topic of six partitions."""
    topic = make_topic(PARTITIONS)
    with Group(bootstrap, f"group-of-{topic}", [topic]) as group:
        yield group


def write(group: Group, numbers: range, topic: str | None = None) -> None:
    messages = [Message(str(each).encode(), partition=each % PARTITIONS) for each in numbers]
    WRITER.write(group.bootstrap, topic or group.topics[0], messages)


def texts(numbers: range) -> list[str]:
    return [str(each) for each in numbers]


@every_kind
def test_three_members_share_everything_while_they_come_and_go(group: Group, kind: str) -> None:
    write(group, range(60))
    first = group.join(kind)
    group.has_read(texts(range(60)))
    second, third = group.join(kind), group.join(kind)
    write(group, range(60, 120))
    group.shares(PARTITIONS, first, second, third)
    write(group, range(120, 180))
    group.has_read(texts(range(180)))
    second.leave()
    group.shares(PARTITIONS, first, third)
    write(group, range(180, 240))
    first.leave()
    group.shares(PARTITIONS, third)
    group.has_read(texts(range(240)))


@pytest.mark.parametrize("kind", ["confluent-eager", "confluent-cooperative", "kafka-python"])
def test_a_killed_static_member_comes_back_without_a_rebalance(group: Group, kind: str) -> None:
    """Its partitions wait for it; the other member is not disturbed."""
    other = group.join(kind, instance="other")
    killed = group.join_as_process(kind, instance="mine")
    group.shares(PARTITIONS, other, killed)
    write(group, range(60))
    group.has_read(texts(range(60)))
    its, before = killed.owned, other.rebalances
    killed.leave()
    again = group.join(kind, instance="mine")
    group.until(lambda: again.owned == its)
    write(group, range(60, 120))
    group.has_read_at_least(texts(range(120)))
    assert other.rebalances == before


@pytest.mark.parametrize("kind", ["confluent-eager", "confluent-consumer"])
def test_a_static_member_that_closes_comes_back_without_a_rebalance(
    group: Group, kind: str
) -> None:
    """In the newer protocol it must close: a killed one's name is free after its session only."""
    other, first = group.join(kind, instance="other"), group.join(kind, instance="mine")
    group.shares(PARTITIONS, other, first)
    write(group, range(60))
    group.has_read(texts(range(60)))
    its, before = first.owned, other.rebalances
    first.leave()
    again = group.join(kind, instance="mine")
    group.until(lambda: again.owned == its)
    write(group, range(60, 120))
    group.has_read(texts(range(120)))
    assert other.rebalances == before


def test_two_static_members_of_one_name_are_an_error(group: Group) -> None:
    """The classic protocol fences the older one; the newer one refuses the younger one."""
    for kind, code in (
        ("confluent-consumer", KafkaError.UNRELEASED_INSTANCE_ID),
        ("confluent-eager", KafkaError.FENCED_INSTANCE_ID),
    ):
        with Group(group.bootstrap, f"{group.name}-{kind}", group.topics) as pair:
            members = [pair.join(kind, instance="mine")]
            pair.shares(PARTITIONS, *members)
            members.append(pair.join(kind, instance="mine"))
            with pytest.raises(KafkaException) as raised:
                pair.until(lambda: False)
            assert KafkaError(code).str() in raised.value.args[0].str()
            pair.members = [each for each in members if not each.has_failed]


def matching(stem: str) -> str:
    return f"^{stem}-[01]$".replace(".", "[.]")


@every_kind
def test_a_regular_expression_finds_its_topics(
    bootstrap: str, make_topic: MakeTopic, kind: str
) -> None:
    first, second, beside = (make_topic(PARTITIONS) for _ in range(3))
    stem = first.removesuffix("-0")
    with Group(bootstrap, f"group-of-{stem}", [matching(stem)]) as group:
        members = group.join(kind), group.join(kind)
        for topic, start in ((first, 0), (second, 60), (beside, 120)):
            write(group, range(start, start + 60), topic)
        group.shares(2 * PARTITIONS, *members)
        group.has_read(texts(range(120)))


@pytest.mark.parametrize("kind", [each for each in KINDS if not each.startswith("kafka-python")])
def test_a_regular_expression_finds_topics_made_later(
    bootstrap: str, make_topic: MakeTopic, kind: str
) -> None:
    """Except kafka-python's: once it has found some, it asks for those only, until it rejoins."""
    first = make_topic(PARTITIONS)
    stem = first.removesuffix("-0")
    with Group(bootstrap, f"group-of-{stem}", [matching(stem)]) as group:
        members = group.join(kind), group.join(kind)
        group.shares(PARTITIONS, *members)
        write(group, range(60), make_topic(PARTITIONS))
        group.shares(2 * PARTITIONS, *members)
        group.has_read(texts(range(60)))


@every_kind
def test_ten_members_share_twenty_partitions(
    bootstrap: str, make_topic: MakeTopic, kind: str
) -> None:
    """Five leave one by one, then two at once: whoever leaves amid a rebalance may do so before it
    commits what it read (librdkafka does), and the next owner has to read that again."""
    topic = make_topic(20)
    with Group(bootstrap, f"group-of-{topic}", [topic]) as group:
        members = [group.join(kind) for _ in range(10)]
        group.shares(20, *members)
        write(group, range(200))
        group.has_read(texts(range(200)))
        for number, member in enumerate(members[:5], start=1):
            member.leave()
            group.shares(20, *members[number:])
        write(group, range(200, 300))
        group.has_read(texts(range(300)))
        for member in members[5:7]:
            member.leave()
        group.shares(20, *members[7:])
        write(group, range(300, 400))
        group.has_read_at_least(texts(range(400)))


@pytest.mark.parametrize("kind", ["confluent-eager", "confluent-cooperative", "confluent-consumer"])
def test_fifty_members_that_join_at_once_settle(
    bootstrap: str, make_topic: MakeTopic, kind: str
) -> None:
    topic = make_topic(50)
    with Group(bootstrap, f"group-of-{topic}", [topic]) as group:
        members = [group.join(kind, session_timeout_ms=30_000) for _ in range(50)]
        group.shares(50, *members)
        write(group, range(100))
        group.has_read(texts(range(100)))


# --- from one protocol to another, while the group works ---------------------------------------


@pytest.mark.parametrize(
    "kinds",
    [
        ("confluent-eager", "confluent-consumer", "confluent-cooperative"),
        ("confluent-cooperative", "confluent-consumer", "confluent-eager"),
        ("kafka-python", "confluent-consumer"),
        ("aiokafka", "confluent-consumer"),
        ("confluent-consumer", "kafka-python"),
        ("confluent-consumer", "aiokafka"),
    ],
    ids=" to ".join,
)
def test_members_are_replaced_one_by_one_by_those_of_another_protocol(
    group: Group, kinds: tuple[str, ...]
) -> None:
    members = [group.join(kinds[0]) for _ in range(2)]
    group.shares(PARTITIONS, *members)
    written = 60
    write(group, range(written))
    for kind in kinds[1:]:
        for old in list(members):
            members.append(group.join(kind))
            group.shares(PARTITIONS, *members)
            members.remove(old)
            old.leave()
            write(group, range(written, written + 60))
            written += 60
            group.shares(PARTITIONS, *members)
            group.has_read(texts(range(written)))


def test_a_member_with_no_assignor_in_common_is_refused(group: Group) -> None:
    """None of the Python clients can name an eager and a cooperative assignor at once, so the way
    from one to the other leads through the newer protocol, as above, or an empty group."""
    resident = group.join("confluent-eager")
    group.shares(PARTITIONS, resident)
    stranger = group.join("confluent-cooperative")
    with pytest.raises(KafkaException) as raised:
        group.until(lambda: False)
    assert raised.value.args[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    group.members.remove(stranger)
    write(group, range(60))
    group.has_read(texts(range(60)))


def test_kcat_reads_as_a_member_and_goes_on_where_it_ended(group: Group) -> None:
    write(group, range(60))
    arguments = ("-G", group.name, "-e", "-X", "auto.offset.reset=earliest", group.topics[0])
    assert sorted(kcat(group.bootstrap, *arguments).decode().split()) == sorted(texts(range(60)))
    write(group, range(60, 120))
    rest = kcat(group.bootstrap, *arguments).decode().split()
    assert sorted(rest) == sorted(texts(range(60, 120)))

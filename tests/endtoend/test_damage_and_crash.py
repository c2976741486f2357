"""A crash and a damaged disk at the same time: files come back damaged whose records were
acknowledged a moment before, so that on disk they are not all marked as flushed.

Every kind of damage has partitions of its own, so one crash tries all of them. Half of these are
filled with a request at a time, all of them together, in a second or more, so that most of it is
marked as flushed on disk; the others one after the other at the end, each with all of its requests
at once, so that the crash comes within the second in which little or nothing is marked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.cimpl import NewTopic
from tests.endtoend.cluster_stage import Stage, a_stage
from tests.endtoend.damaging import (
    DAMAGE_BEFORE_THE_TAIL,
    DAMAGE_OF_THE_TAIL,
    Damage,
    batches_of,
    harmed_offsets,
)
from tests.endtoend.observing import assert_healthy
from tests.support.eventually import RanOutOfTime, attempts, eventually
from tests.support.node_driver import batch_of
from tests.support.node_process import StartNode
from tests.support.raw_client import LATEST, ConnectionLost, RawClient, opened

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

T = TypeVar("T")

_TOPIC = "t"
_RECORDS = 100
_FEW = 10
_SETTINGS = ("--set", "segment.bytes=20000")
"""A segment has 18 of the records, the active one has 10."""
_VICTIM, _OTHER = 2, 1
_BY_NAME_PRODUCE = 9
_PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""A client of a cluster asks again after these: another replica has the records."""


class Case(NamedTuple):
    """What happens to one partition. `leader` is the node that leads it at the crash."""

    partition: int
    name: str
    damage: Damage
    leader: int
    is_filled_at_once: bool

    def __str__(self) -> str:
        filled = "at once" if self.is_filled_at_once else "slowly"
        return f"{_TOPIC}-{self.partition} ({self.name}, led by {self.leader}, filled {filled})"


def _cases(kinds: dict[str, Damage], leaders: tuple[int, ...]) -> list[Case]:
    every = [
        (name, damage, leader, is_filled_at_once)
        for leader in leaders
        for is_filled_at_once in (False, True)
        for name, damage in kinds.items()
    ]
    return [Case(partition, *rest) for partition, rest in enumerate(every)]


def _value(partition: int, number: int) -> bytes:
    """A kilobyte without a zero byte in it."""
    text = b"%d/%d " % (partition, number)
    return text + bytes(Random(f"{partition}/{number}").choices(range(1, 256), k=1024 - len(text)))


def _request(cases: list[Case], numbers: range) -> ProduceRequest:
    """These records for each of the partitions, every one in a batch of its own."""
    partitions = [
        PartitionProduceData(
            index=case.partition,
            records=b"".join(batch_of(_value(case.partition, number)) for number in numbers),
        )
        for case in cases
    ]
    topic = TopicProduceData(name=_TOPIC, partition_data=partitions)
    return ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])


def _fill(clients: dict[int, RawClient], cases: list[Case]) -> None:
    """All partitions get all of their records, a few with each request."""
    steps = [range(first, first + _FEW) for first in range(0, _RECORDS, _FEW)]
    for numbers in steps:
        for leader, client in clients.items():
            slow = [one for one in cases if one.leader == leader and not one.is_filled_at_once]
            client.send(_request(slow, numbers), _BY_NAME_PRODUCE)
        for client in clients.values():
            _receive(client)
    for case in cases:
        if case.is_filled_at_once:
            client = clients[case.leader]
            frames = [client.encode(_request([case], each), _BY_NAME_PRODUCE) for each in steps]
            client.send_bytes(b"".join(frames))
            for _ in steps:
                _receive(client)


def _receive(client: RawClient) -> None:
    answers = client.receive().responses[0].partition_responses
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}


def _harm(cases: list[Case], directory_of: Callable[[int], Path]) -> dict[int, list[int]]:
    """Each partition suffers its damage; gives the offsets whose bytes are not what they were."""
    random = Random(11)
    harmed: dict[int, list[int]] = {}
    for case in cases:
        directory = directory_of(case.partition)
        before = batches_of(directory)
        assert set(before) == set(range(_RECORDS)), f"{case}: not all of it was written"
        case.damage(directory, random)
        harmed[case.partition] = harmed_offsets(before, directory)
    return harmed


def _collect(cases: list[Case], check: Callable[[Case], None]) -> list[str]:
    """What is wrong, of all partitions and not only of the first."""
    wrong: list[str] = []
    for case in cases:
        try:
            check(case)
        except RanOutOfTime:
            raise
        except AssertionError as error:
            wrong.append(f"{case}: {str(error).splitlines()[0]}")
    return wrong


def _end_offset(client: RawClient, partition: int) -> tuple[ErrorCode, int]:
    asked = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
    topic = ListOffsetsTopic(name=_TOPIC, partitions=[asked])
    answer = client.request(ListOffsetsRequest(replica_id=-1, topics=[topic]))
    data = answer.topics[0].partitions[0]
    return data.error_code, data.offset


def _fetch(
    client: RawClient, partition: int, offset: int
) -> tuple[ErrorCode, dict[int, bytes | None]]:
    data = client.fetch(_TOPIC, offset, partition=partition)
    if data.error_code is not ErrorCode.NONE:
        return data.error_code, {}
    values = opened(data)
    return (ErrorCode.NONE if values else ErrorCode.OFFSET_NOT_AVAILABLE), values


def _write(client: RawClient, partition: int, value: bytes) -> tuple[ErrorCode, int]:
    answer = client.produce(_TOPIC, value, partition=partition)
    return answer.error_code, answer.base_offset


# --- one node, one copy -------------------------------------------------------------------------


def test_a_node_alone_loses_the_damaged_batches_only_and_gives_no_offset_out_again(
    start_node: StartNode, tmp_path: Path
) -> None:
    cases = _cases(DAMAGE_BEFORE_THE_TAIL, leaders=(1,))
    data = tmp_path / "data"
    node = start_node(data, *_SETTINGS)
    with RawClient(node) as client:
        client.create_topic(_TOPIC, partitions=len(cases))
        topic = next(data.glob(f"topics/{_TOPIC}.*"))
        _fill({1: client}, cases)
    node.kill()
    harmed = _harm(cases, lambda partition: topic / str(partition))
    wrong: list[str] = []
    for new in range(2):
        node.restart()
        with RawClient(node) as client:

            def check(case: Case, new: int = new, client: RawClient = client) -> None:
                _check_alone(client, case, harmed[case.partition], new)

            wrong += _collect(cases, check)
            client.fetch(_TOPIC, _RECORDS + new + 1, max_wait_ms=1100)  # all is reported by now
        node.kill()
    assert not wrong, "\n".join(wrong)
    for case in cases:
        if harmed[case.partition]:
            assert f"{_TOPIC}-{case.partition}: " in node.log, f"{case} was not reported"
    assert "Traceback" not in node.log, node.log


def _check_alone(client: RawClient, case: Case, harmed: list[int], new: int) -> None:
    """`new` records were written since the crash; another is written now."""
    end = client.end_offset(_TOPIC, case.partition)
    assert end == _RECORDS + new, f"the log ends at {end} instead of {_RECORDS + new}"
    offset = client.must_produce(_TOPIC, b"new %d" % new, partition=case.partition)
    assert offset == end
    values, _ = client.read_around_damage(_TOPIC, case.partition)
    intact = [number for number in range(_RECORDS) if number not in harmed]
    missing = [number for number in intact if number not in values]
    assert not missing, f"{len(missing)} intact records can't be read: {missing}"
    for number in range(new + 1):
        assert values.pop(_RECORDS + number) == b"new %d" % number
    changed = [number for number in values if values[number] != _value(case.partition, number)]
    assert not changed, f"other records are at the offsets {changed}"


# --- three nodes, three copies ------------------------------------------------------------------


@pytest.mark.parametrize("is_damaged_first", [False, True], ids=["together", "damaged first"])
def test_a_cluster_that_crashed_loses_nothing_to_one_damaged_disk(
    tmp_path: Path, is_damaged_first: bool
) -> None:
    with a_stage(tmp_path, *_SETTINGS) as stage:
        cases = _cases(DAMAGE_BEFORE_THE_TAIL | DAMAGE_OF_THE_TAIL, leaders=(_VICTIM, _OTHER))
        _create_topic(stage, cases)
        with RawClient(stage.nodes[_VICTIM]) as mine, RawClient(stage.nodes[_OTHER]) as others:
            _fill({_VICTIM: mine, _OTHER: others}, cases)
            for node in stage.nodes.values():
                node.process.kill()
        for node in stage.nodes.values():
            node.kill()
        _harm(cases, lambda partition: _topic_directory(stage, _VICTIM) / str(partition))
        _restart_all(stage, is_damaged_first=is_damaged_first)
        _check_all(stage, cases)
        for node in stage.nodes.values():
            assert_healthy(node)


def _check_all(stage: Stage, cases: list[Case]) -> None:
    """First as the cluster comes up. Then all copies must be in sync again, and the damaged ones
    are asked in particular."""
    expected = {
        case: {number: _value(case.partition, number) for number in range(_RECORDS)}
        for case in cases
    }
    with Readers(stage) as readers:
        wrong = _collect(cases, lambda case: readers.check(case, expected[case]))
    assert not wrong, "\n".join(wrong)
    stage.wait_until_whole(_TOPIC)
    _lead_again(stage, cases)
    with Readers(stage) as readers:
        wrong = _collect(cases, lambda case: readers.check(case, expected[case]))
    assert not wrong, "\n".join(wrong)


def _topic_directory(stage: Stage, node: int) -> Path:
    return stage.partition_directory(node, 0, _TOPIC).parent


def _create_topic(stage: Stage, cases: list[Case]) -> None:
    """Every partition is led by the node that its case names, and all have it."""
    replicas = [
        [case.leader, *(node for node in stage.nodes if node != case.leader)] for case in cases
    ]
    new = NewTopic(
        _TOPIC,
        len(cases),
        replica_assignment=replicas,
        config={"min.insync.replicas": "2"},
    )
    admin = stage.admin()
    admin.create_topics([new], request_timeout=60)[_TOPIC].result(60)
    stage.wait_until_whole(_TOPIC)
    files = f"topics/{_TOPIC}.*/*/*.log"

    def is_everywhere() -> bool:
        found = [len([*node.data_dir.glob(files)]) for node in stage.nodes.values()]
        return set(found) == {len(cases)}

    eventually(is_everywhere, "a log of each partition on each node")
    led = {number: one.leader_id for number, one in stage.partitions(_TOPIC).items()}
    assert led == {case.partition: case.leader for case in cases}


def _restart_all(stage: Stage, *, is_damaged_first: bool) -> None:
    """All at once; or the damaged one and another, and the third when those two are at work."""
    ids = sorted(stage.nodes, key=lambda node_id: node_id != _VICTIM)
    for node_id in ids[:2] if is_damaged_first else ids:
        stage.restart(node_id, waits=False)
    if is_damaged_first:
        for node_id in ids[:2]:
            stage.nodes[node_id].wait_ready()
        stage.restart(ids[2], waits=False)
        stage.nodes[ids[2]].wait_ready()
        return
    for node in stage.nodes.values():
        node.wait_ready()


def _lead_again(stage: Stage, cases: list[Case]) -> None:
    """The damaged copies are asked, too: their node is the first replica of half the partitions."""
    wanted = [TopicPartition(_TOPIC, case.partition) for case in cases if case.leader == _VICTIM]
    admin = stage.admin()

    def is_leading() -> bool:
        admin.elect_leaders(ElectionType.PREFERRED, wanted).result(60)
        partitions = stage.partitions(_TOPIC)
        return all(partitions[one.partition].leader_id == _VICTIM for one in wanted)

    eventually(is_leading, f"node {_VICTIM} to lead again")


class Readers:
    """A client to each node. Each question is asked until the leader answers it, and all of them
    together have as long as one wait has."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._clients: dict[int, RawClient] = {}
        self._attempts = attempts("an answer from every partition's leader", pause_s=0.02)

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    def check(self, case: Case, expected: dict[int, bytes]) -> None:
        """All of `expected` is there; then another record is written, and is expected from now."""
        end = self._ask(case, lambda client: _end_offset(client, case.partition))
        assert end > max(expected), f"the log ends at {end}, {max(expected)} was acknowledged"
        values: dict[int, bytes | None] = {}
        while max(values, default=-1) + 1 < end:
            at = max(values, default=-1) + 1
            values |= self._ask(case, partial(_fetch, partition=case.partition, offset=at))
        changed = [offset for offset in expected if values.get(offset) != expected[offset]]
        assert not changed, f"{len(changed)} records are not what was acknowledged: {changed}"
        new = b"new, behind %d" % end
        offset = self._ask(case, lambda client: _write(client, case.partition, new))
        assert offset >= end, f"a new record got the offset {offset}, below the end {end}"
        expected[offset] = new

    def _ask(self, case: Case, question: Callable[[RawClient], tuple[ErrorCode, T]]) -> T:
        for _ in self._attempts:
            leader = self._stage.leader_of(_TOPIC, case.partition)
            if leader not in self._stage.nodes:
                continue
            try:
                client = self._clients.get(leader) or RawClient(self._stage.nodes[leader])
                self._clients[leader] = client
                error, answer = question(client)
            except ConnectionLost:
                self._clients.pop(leader, None)
                continue
            if error is ErrorCode.NONE:
                return answer
            assert error in _PASSING, f"node {leader} says {error.name}"
        raise RanOutOfTime("no time is left to ask in")

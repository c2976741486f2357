"""A request that asks for very much is dealt with in slices, and others are answered in between.
What a slice is is counted, not timed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.node_driver import NodeDriver

from tidelog.broker.effects import Stop
from tidelog.broker.events import ConnectionClosed
from tidelog.broker.replicas import FOUND_AT_ONCE, OPENED_AT_ONCE
from tidelog.broker.slices import DIRECTORIES_PER_SLICE, LOGS_PER_SLICE
from tidelog.broker.topic_creations import PARTITIONS_PER_SLICE, slices_of
from tidelog.broker.topic_directories import DELETED_AT_ONCE
from tidelog.controller.topics import TopicSpec
from tidelog.metadata.image import Image
from tidelog.metadata.records import TopicRecord
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_WIDE = 20


@pytest.fixture
def driver(tmp_path: Path) -> NodeDriver:
    return NodeDriver(tmp_path)


def topics_of(count: int, partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=f"t{number}", num_partitions=partitions, replication_factor=1)
            for number in range(count)
        ],
        timeout_ms=60_000,
    )


def finish_opening(driver: NodeDriver) -> int:
    """Ticks until every log is there."""
    ticks = 0
    while driver.node.state.replicas.has_deferred:
        driver.advance(0)
        ticks += 1
    return ticks


def finish_deleting(driver: NodeDriver) -> None:
    while driver.node.state.replicas.directories.has_doomed:
        driver.advance(0)


def test_many_topics_are_decided_on_in_slices_and_answered_once() -> None:
    specs = [TopicSpec(f"t{number}", partitions=_WIDE) for number in range(100)]
    slices = slices_of(specs, 1)
    assert sorted(index for indexes in slices for index in indexes) == list(range(100))
    assert max(len(indexes) for indexes in slices) * _WIDE < PARTITIONS_PER_SLICE + _WIDE


def test_partitions_that_topics_get_by_default_count_and_so_do_those_of_an_assignment() -> None:
    by_default = [TopicSpec(f"t{number}") for number in range(100)]
    assigned = [TopicSpec(f"a{n}", assignments=dict.fromkeys(range(_WIDE), (1,))) for n in range(9)]
    for specs, default in ((by_default, _WIDE), (assigned, 1)):
        slices = slices_of(specs, default)
        assert max(len(indexes) for indexes in slices) * _WIDE < PARTITIONS_PER_SLICE + _WIDE
    assert len(slices_of(assigned, 1000)) == len(slices_of(assigned, 1))


def test_a_topic_that_is_named_twice_is_refused_though_its_names_are_far_apart(
    driver: NodeDriver,
) -> None:
    request = topics_of(40, _WIDE)
    request.topics[-1].name = "t0"
    number = driver.submit(request)
    while number not in driver.responses:
        driver.advance(0)
    errors = [topic.error_code for topic in driver.responses[number].topics]
    refused = ErrorCode.INVALID_REQUEST
    assert errors == [refused, *[ErrorCode.NONE] * 38, refused]


def test_others_are_answered_between_the_slices(driver: NodeDriver) -> None:
    other = driver.connect()
    number = driver.submit(topics_of(40, _WIDE))
    seen = [0]
    while number not in driver.responses:
        driver.advance(0)
        known = driver.request(MetadataRequest(topics=None), connection=other).topics
        seen.append(sum(len(topic.partitions) for topic in known))
    assert seen[-1] == 40 * _WIDE
    steps = [after - before for before, after in pairwise(seen)]
    assert max(steps) < PARTITIONS_PER_SLICE + _WIDE
    answer = driver.responses[number]
    assert [topic.name for topic in answer.topics] == [f"t{index}" for index in range(40)]
    assert {(topic.error_code, topic.num_partitions) for topic in answer.topics} == {
        (ErrorCode.NONE, _WIDE)
    }


def decided_between(driver: NodeDriver, number: int) -> list[int]:
    """How many partitions the controller had after each step, until the answer was there."""
    counts = []
    while number not in driver.responses:
        driver.advance(0)
        counts.append(driver.node.state.controller.image.partition_count)
    return counts


def test_topics_with_the_default_of_partitions_are_made_in_slices(tmp_path: Path) -> None:
    driver = NodeDriver(tmp_path, num_partitions=str(_WIDE))
    counts = decided_between(driver, driver.submit(topics_of(20, -1)))
    assert counts[-1] == 20 * _WIDE
    assert max(after - before for before, after in pairwise([0, *counts])) <= 2 * _WIDE


def test_what_would_happen_is_found_out_in_slices_too(tmp_path: Path) -> None:
    driver = NodeDriver(tmp_path, max_partitions="790")
    request = topics_of(40, _WIDE)
    request.validate_only = True
    number = driver.submit(request)
    steps = len(decided_between(driver, number))
    assert steps >= 20
    errors = [topic.error_code for topic in driver.responses[number].topics]
    assert errors == [*[ErrorCode.NONE] * 39, ErrorCode.INVALID_PARTITIONS]
    assert not driver.node.state.image.topics


def test_topics_that_metadata_asks_for_are_made_in_slices(tmp_path: Path) -> None:
    driver = NodeDriver(tmp_path, num_partitions=str(_WIDE))
    names = ["not/legal", *(f"t{number}" for number in range(20))]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    number = driver.submit(request)
    counts = decided_between(driver, number)
    assert counts[-1] == 20 * _WIDE
    assert max(after - before for before, after in pairwise([0, *counts])) <= 2 * _WIDE
    refused, *made = driver.responses[number].topics
    assert refused.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert {(topic.error_code, len(topic.partitions)) for topic in made} == {
        (ErrorCode.NONE, _WIDE)
    }


def growth_of(count: int, partitions: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=f"t{number}", count=partitions, assignments=None)
            for number in range(count)
        ],
        timeout_ms=60_000,
    )


def test_partitions_are_added_in_slices_and_answered_in_order(driver: NodeDriver) -> None:
    driver.request(topics_of(30, 1))
    request = growth_of(31, 1 + _WIDE)
    request.topics.insert(3, CreatePartitionsTopic(name="t0", count=1, assignments=None))
    number = driver.submit(request)
    counts = decided_between(driver, number)
    assert counts[-1] == 30 * (1 + _WIDE)
    assert max(after - before for before, after in pairwise([30, *counts])) <= 2 * _WIDE
    results = driver.responses[number].results
    assert [result.name for result in results] == [topic.name for topic in request.topics]
    assert {result.name for result in results if not result.error_code} == {
        f"t{number}" for number in range(30)
    }
    assert results[3].error_code is ErrorCode.INVALID_PARTITIONS
    assert results[-1].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_whether_partitions_could_be_added_is_found_out_in_slices_too(tmp_path: Path) -> None:
    driver = NodeDriver(tmp_path, max_partitions="620")
    driver.request(topics_of(30, 1))
    request = growth_of(30, 1 + _WIDE)
    request.validate_only = True
    number = driver.submit(request)
    assert set(decided_between(driver, number)) == {30}
    errors = [result.error_code for result in driver.responses[number].results]
    assert errors == [*[ErrorCode.NONE] * 29, ErrorCode.INVALID_PARTITIONS]


def test_the_logs_of_a_wide_topic_are_made_a_few_at_a_time(driver: NodeDriver) -> None:
    driver.create_topic("wide", 200)
    replicas = driver.node.state.replicas
    counts = [len(replicas.by_key)]
    assert counts[0] <= OPENED_AT_ONCE + LOGS_PER_SLICE
    while replicas.has_deferred:
        driver.advance(0)
        counts.append(len(replicas.by_key))
    assert counts[-1] == 200
    steps = [after - before for before, after in pairwise(counts)]
    assert max(steps) <= LOGS_PER_SLICE


def test_while_logs_are_still_to_be_made_a_commit_makes_no_more(driver: NodeDriver) -> None:
    driver.create_topic("wide", 200)
    replicas = driver.node.state.replicas
    made = len(replicas.by_key)
    driver.create_topic("next", OPENED_AT_ONCE)
    assert len(replicas.by_key) <= made + LOGS_PER_SLICE
    driver.produce("next", b"made at once when asked for")
    finish_opening(driver)
    assert len(replicas.by_key) == 200 + OPENED_AT_ONCE


def test_a_partition_that_is_asked_for_gets_its_log_at_once(driver: NodeDriver) -> None:
    driver.create_topic("wide", 200)
    state = driver.node.state
    assert state.replicas.has_deferred
    found = state.replicas.find("wide", 199)
    assert not isinstance(found, ErrorCode)
    assert found.leader is not None
    finish_opening(driver)
    assert len(state.replicas.by_key) == 200


def test_a_topic_removed_before_its_logs_were_made_takes_them_along(driver: NodeDriver) -> None:
    driver.create_topic("wide", 200)
    driver.request(
        DeleteTopicsRequest(topics=[DeleteTopicState(name="wide")], timeout_ms=60_000), version=6
    )
    assert not driver.node.state.replicas.has_deferred
    assert not driver.node.state.replicas.by_key
    finish_deleting(driver)
    assert driver.node.next_deadline() != 0.0


def topic_directories(driver: NodeDriver) -> int:
    return len(list((driver.data_dir / "topics").iterdir()))


def delete(driver: NodeDriver, *names: str) -> None:
    topics = [DeleteTopicState(name=name) for name in names]
    answer = driver.request(DeleteTopicsRequest(topics=topics, timeout_ms=60_000), version=6)
    assert {topic.error_code for topic in answer.responses} == {ErrorCode.NONE}


def test_many_directories_are_deleted_one_at_a_time(driver: NodeDriver) -> None:
    names = [f"t{number}" for number in range(40)]
    for name in names:
        driver.create_topic(name)
    delete(driver, *names)
    counts = [topic_directories(driver)]
    assert counts[0] >= 40 - DELETED_AT_ONCE
    while driver.node.state.replicas.directories.has_doomed:
        driver.advance(0)
        counts.append(topic_directories(driver))
    assert max(before - after for before, after in pairwise(counts)) <= DIRECTORIES_PER_SLICE
    assert counts[-1] == 0
    assert driver.node.next_deadline() != 0.0


def test_the_directory_of_a_small_topic_is_gone_with_it(driver: NodeDriver) -> None:
    driver.create_topic("small", DELETED_AT_ONCE - 1)
    driver.produce("small", b"x")
    delete(driver, "small")
    assert topic_directories(driver) == 0


def test_what_is_not_deleted_before_a_crash_is_deleted_at_the_start(driver: NodeDriver) -> None:
    names = [f"t{number}" for number in range(20)]
    for name in names:
        driver.create_topic(name)
    delete(driver, *names)
    assert topic_directories(driver) > 0
    driver.restart()
    assert topic_directories(driver) == 0
    assert not driver.reports


def test_a_request_for_very_many_new_partitions_makes_the_logs_of_a_few(
    driver: NodeDriver,
) -> None:
    driver.create_topic("wide", 200)
    replicas = driver.node.state.replicas
    made = len(replicas.by_key)
    found = [replicas.find("wide", number) for number in range(200)]
    assert len(replicas.by_key) == made + FOUND_AT_ONCE
    refused = [each for each in found if isinstance(each, ErrorCode)]
    assert set(refused) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    finish_opening(driver)
    assert not [n for n in range(200) if isinstance(replicas.find("wide", n), ErrorCode)]


def test_a_node_that_stops_before_all_logs_were_made_stops_cleanly(driver: NodeDriver) -> None:
    driver.create_topic("wide", 200)
    driver.stop()
    assert driver.effects_of(Stop) == [Stop()]
    assert not driver.reports
    driver.restart()
    assert len(driver.node.state.replicas.by_key) == 200
    assert not driver.reports


def test_a_client_that_has_gone_leaves_no_slices_behind(driver: NodeDriver) -> None:
    other = driver.connect()
    driver.submit(topics_of(40, _WIDE), connection=other)
    driver.step(ConnectionClosed(other))
    driver.advance(0)
    assert not driver.node.state.long_requests


def test_names_of_changed_topics_do_not_pile_up_where_nobody_validates() -> None:

    image = Image()
    for number in range(10):
        image, _ = image.replay([TopicRecord(name=f"t{number}", topic_id=UUID(int=number + 1))])
    assert image._unchecked.topics == ()

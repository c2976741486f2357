"""Metadata of all topics: encoded once per image, and in slices where there are very many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.call_counts import calls_of
from tests.support.node_driver import NodeDriver

from tidelog.bench.images import image_of
from tidelog.broker.encoded_answers import EncodedAnswers
from tidelog.broker.events import ConnectionClosed
from tidelog.broker.topic_descriptions import MOST_AT_ONCE, PARTITIONS_PER_SLICE
from tidelog.metadata.image import Image
from tidelog.wire.messages.metadata import MetadataRequest

TOPICS, PARTITIONS = 600, 10
ALL = MetadataRequest(
    topics=None,
    include_cluster_authorized_operations=True,
    include_topic_authorized_operations=True,
)


@pytest.fixture(scope="module")
def large() -> Image:
    image = image_of(nodes=5, topics=TOPICS, partitions=PARTITIONS)
    assert image.partition_count > MOST_AT_ONCE
    return image


@pytest.fixture
def driver(tmp_path: Path, large: Image) -> NodeDriver:
    driver = NodeDriver(tmp_path)
    driver.node.state.image = large
    return driver


def ticks_until_answered(driver: NodeDriver, *correlations: int) -> int:
    ticks = 0
    while not all(each in driver.responses for each in correlations):
        driver.advance(0)
        ticks += 1
        assert ticks < 100
    return ticks


@pytest.mark.parametrize("version", range(14))
def test_the_answer_in_slices_is_the_answer_at_once(
    driver: NodeDriver, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ALL if version else replace(ALL, topics=[])
    asked = driver.submit(request, version=version)
    assert asked not in driver.responses
    ticks_until_answered(driver, asked)
    driver.node.state.encoded_answers = EncodedAnswers()
    monkeypatch.setattr("tidelog.broker.apis.metadata.MOST_AT_ONCE", 10**9)
    assert driver.responses[asked] == driver.request(request, version=version)
    assert len(driver.responses[asked].topics) == TOPICS


def test_others_are_answered_in_between(driver: NodeDriver) -> None:
    asked = driver.submit(ALL)
    other = driver.connect()
    driver.advance(0)
    assert driver.request(MetadataRequest(topics=[]), connection=other).topics == []
    assert asked not in driver.responses
    assert ticks_until_answered(driver, asked) >= TOPICS * PARTITIONS // PARTITIONS_PER_SLICE - 1


def test_who_asks_meanwhile_shares_the_answer_and_who_asks_later_has_it_at_once(
    driver: NodeDriver,
) -> None:
    first = driver.submit(ALL)
    second = driver.submit(ALL, connection=driver.connect())
    slices = TOPICS * PARTITIONS // PARTITIONS_PER_SLICE
    assert ticks_until_answered(driver, first, second) <= slices + 2
    third = driver.submit(ALL)
    assert driver.responses[first] == driver.responses[second] == driver.responses[third]


def test_a_slice_describes_so_many_partitions_and_no_more(driver: NodeDriver) -> None:
    driver.submit(ALL)
    first = calls_of(lambda: driver.advance(0))
    others = [calls_of(lambda: driver.advance(0)) for _ in range(4)]
    assert max(others) < 1.2 * first
    driver.node.state.image = image_of(nodes=5, topics=10 * TOPICS, partitions=PARTITIONS)
    driver.advance(0)
    driver.submit(ALL)
    driver.advance(0)
    assert calls_of(lambda: driver.advance(0)) < 1.2 * first


def test_another_image_is_described_anew(driver: NodeDriver, large: Image) -> None:
    asked = driver.submit(ALL)
    driver.advance(0)
    driver.node.state.image = image_of(nodes=5, topics=TOPICS + 1, partitions=PARTITIONS)
    ticks_until_answered(driver, asked)
    again = driver.submit(ALL)
    ticks_until_answered(driver, again)
    assert len(driver.responses[asked].topics) == TOPICS
    assert len(driver.responses[again].topics) == TOPICS + 1


def test_a_client_that_is_gone_costs_no_more(driver: NodeDriver) -> None:
    driver.submit(ALL)
    driver.advance(0)
    driver.step(ConnectionClosed(driver.connection))
    driver.advance(0)
    assert not driver.node.state.long_requests


def test_a_node_that_stops_answers_in_one_go(driver: NodeDriver) -> None:
    asked = driver.submit(ALL)
    driver.advance(0)
    driver.stop()
    assert len(driver.responses[asked].topics) == TOPICS

"""A reader that names the epoch it last read learns where its log parts from ours."""

from __future__ import annotations

from pathlib import Path

from tests.support.node_driver import NodeDriver

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)


def fetch(driver: NodeDriver, *, offset: int, last_fetched_epoch: int) -> PartitionData:
    partition = FetchPartition(
        partition=0,
        fetch_offset=offset,
        last_fetched_epoch=last_fetched_epoch,
        partition_max_bytes=1000,
    )
    topic = FetchTopic(topic="t", partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=[topic])
    response = driver.request(request, version=12)
    answer: PartitionData = response.responses[0].partitions[0]
    return answer


def test_a_log_without_epochs_sends_the_reader_back_to_the_start(tmp_path: Path) -> None:
    """As after the topic was created again: an empty answer would have it ask for ever."""
    driver = NodeDriver(tmp_path)
    driver.create_topic("t")
    answer = fetch(driver, offset=5, last_fetched_epoch=0)
    assert answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_beyond_the_end_of_its_epoch_is_told_where_it_ends(tmp_path: Path) -> None:
    driver = NodeDriver(tmp_path)
    driver.create_topic("t")
    driver.produce("t", b"a", b"b")
    answer = fetch(driver, offset=5, last_fetched_epoch=0)
    assert answer.error_code is ErrorCode.NONE
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 2)


def test_a_reader_at_the_end_of_its_epoch_is_not_disturbed(tmp_path: Path) -> None:
    driver = NodeDriver(tmp_path)
    driver.create_topic("t")
    driver.produce("t", b"a", b"b")
    answer = fetch(driver, offset=2, last_fetched_epoch=0)
    assert answer.error_code is ErrorCode.NONE
    assert answer.diverging_epoch.epoch == -1

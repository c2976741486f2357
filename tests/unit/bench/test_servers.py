"""Starting, finding and configuring the processes that are measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidelog.bench.kafka import running_kafka, server_properties
from tidelog.bench.pump import share_of
from tidelog.bench.servers import (
    Server,
    ServerFailed,
    node_command,
    parse_address,
    parse_ready,
    running,
)


def test_the_ready_line_tells_the_address() -> None:
    assert parse_ready("ready 127.0.0.1:9092\n") == ("127.0.0.1", 9092)
    assert parse_address("[::1]:9092") == ("::1", 9092)


@pytest.mark.parametrize("line", ["", "steady 127.0.0.1:1", "ready", "ready 127.0.0.1"])
def test_another_line_is_not_ready(line: str) -> None:
    with pytest.raises(ValueError, match="not "):
        parse_ready(line)


def test_a_server_that_dies_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such disk')"]
    with (
        pytest.raises(ServerFailed, match="no such disk"),
        running("node", command, log_dir=tmp_path),
    ):
        pass


def test_a_node_is_told_whether_to_flush() -> None:
    assert node_command(Path("d"), is_flushed=True)[-1] == "flush.policy=ack"
    assert node_command(Path("d"), is_flushed=False)[-1] == "flush.policy=os"
    assert Server("kafka", "h", 1, 2).topic_settings(is_flushed=True) == {"flush.messages": "1"}


def test_a_node_is_told_its_settings() -> None:
    command = node_command(Path("d"), is_flushed=False, settings={"log.cleaner.backoff.ms": "100"})
    assert command[-4:] == ["--set", "log.cleaner.backoff.ms=100", "--set", "flush.policy=os"]


def test_kafka_is_configured_on_loopback_only() -> None:
    properties = server_properties(Path("data"), port=1111, controllers={1: 2222})
    assert "listeners=PLAINTEXT://127.0.0.1:1111,CONTROLLER://127.0.0.1:2222" in properties


def test_a_directory_without_jars_is_no_kafka(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerFailed, match="not a Kafka installation"),
        running_kafka(tmp_path, tmp_path),
    ):
        pass


def test_shares_of_a_quota_sum_up_and_are_even() -> None:
    shares = [share_of(1_003, 4, index) for index in range(4)]
    assert sum(shares) == 1_003
    assert max(shares) - min(shares) <= 1


def test_three_kafkas_know_of_each_other() -> None:
    properties = server_properties(
        Path("data"), port=1111, node_id=2, controllers={1: 21, 2: 22, 3: 23}
    )
    assert "node.id=2\n" in properties
    assert "controller.quorum.voters=1@127.0.0.1:21,2@127.0.0.1:22,3@127.0.0.1:23" in properties
    assert "CONTROLLER://127.0.0.1:22" in properties
    assert "offsets.topic.replication.factor=3" in properties

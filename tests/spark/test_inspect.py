"""`tidelog spark inspect`: what is in a topic, to the record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.command_line import CommandLine
from tests.support.node_process import RunningNode

from tidelog.client import Admin, Connection, Producer
from tidelog.model.ids import TopicPartition

pytestmark = pytest.mark.xdist_group("spark")

BEGIN_MS = 1_767_261_600_000
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def orders(spark_node: RunningNode) -> str:
    """Partition 0 has 90 records, a second apart, every tenth 30 s late; partition 1 has ten, two
    of them tombstones; a group has read forty of the first."""
    name = "inspected"
    connection = Connection(spark_node.bootstrap)
    admin = Admin(connection)
    admin.create_topic(name, partitions=2, settings={"retention.ms": "-1"})
    with Producer(connection) as producer:
        for number in range(90):
            late_ms = 30_000 if number % 10 == 9 and number > 40 else 0
            producer.send(
                name,
                json.dumps({"order": number, "city": "Oslo"}),
                key="hot" if number % 3 else f"cold-{number}",
                partition=0,
                timestamp_ms=BEGIN_MS + number * 1000 - late_ms,
            )
        for number in range(10):
            value = None if number < 2 else json.dumps({"order": number})
            producer.send(name, value, key=None, partition=1, timestamp_ms=BEGIN_MS + number)
    admin.set_committed("billing", {TopicPartition(name, 0): 40})
    return name


def test_all_figures_are_exact(
    spark: SparkSession,
    spark_node: RunningNode,
    tidelog: CommandLine,
    orders: str,
    tmp_path: Path,
) -> None:
    where = ("--bootstrap", spark_node.bootstrap)
    found = tidelog("spark", "inspect", orders, "--json", "--plots", str(tmp_path), *where).json
    assert (found["records"], found["tombstones"], found["gaps"]) == (100, 2, 0)
    assert [each["records"] for each in found["partitions"]] == [90, 10]
    assert found["skew"] == pytest.approx(1.8)
    assert (found["late"], found["partitions"][0]["late"]) == (5, 5)
    assert found["partitions"][0]["latest_by_ms"] == 29_000
    assert found["late_by"] == [{"upTo": "1.67 min", "records": 5}]
    assert found["hot_keys"][:2] == [
        {"key": "hot", "records": 60, "share": 0.6},
        {"key": None, "records": 10, "share": 0.1},
    ]
    assert found["groups"] == [{"group": "billing", "lag": 50}]
    assert found["schema"]["ddl"] == "order bigint, city string"
    assert sum(each["records"] for each in found["buckets"]) == 100
    assert len(found["plots"]) == 4
    assert all(Path(each).read_bytes().startswith(PNG) for each in found["plots"])


def test_people_get_tables_and_may_ask_for_the_newest_only(
    spark: SparkSession, spark_node: RunningNode, tidelog: CommandLine, orders: str
) -> None:
    shown = tidelog(
        *("spark", "inspect", orders, "--newest", "5", "--hot-keys", "1"),
        *("--bootstrap", spark_node.bootstrap),
    )
    assert shown.code == 0
    assert "10 in" in shown.output
    assert "json" in shown.output
    assert "billing" in shown.output


def test_an_empty_and_a_missing_topic_are_no_accident(
    spark: SparkSession, spark_node: RunningNode, tidelog: CommandLine, topic: str
) -> None:
    Admin(Connection(spark_node.bootstrap)).create_topic(topic)
    where = ("--bootstrap", spark_node.bootstrap)
    empty = tidelog("spark", "inspect", topic, "--json", *where).json
    assert (empty["records"], empty["schema"]["format"]) == (0, "empty")
    missing = tidelog("spark", "inspect", "nirvana", *where)
    assert missing.code == 1
    assert missing.errors.startswith("error: there is no topic 'nirvana'")

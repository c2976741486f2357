"""`tidelog spark archive | table | replay | optimize`, as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.lake_topics import consumed, create_topic, numbered, produce
from tests.support.command_line import CommandLine
from tests.support.node_process import RunningNode

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def orders(spark: SparkSession, spark_node: RunningNode, topic: str) -> str:
    """60 records; the commands use the session that is there."""
    create_topic(spark_node.bootstrap, topic, partitions=3)
    produce(spark_node.bootstrap, topic, numbered(0, 60))
    return topic


def test_a_topic_goes_to_the_lake_and_back(
    tidelog: CommandLine, spark_node: RunningNode, orders: str, tmp_path: Path
) -> None:
    at = ("--bootstrap", spark_node.bootstrap)
    lake = tmp_path / "lake"
    archived = tidelog("spark", "archive", orders, "--to", str(lake), *at)
    assert archived.code == 0, archived.errors
    assert "60 rows archived in 1 batch" in archived.output.replace("\n", " ")
    assert "batch 1: 60 rows" in archived.errors
    again = tidelog("spark", "archive", orders, "--to", str(lake), "--json", *at)
    assert json.loads(again.output)["rows"] == 0
    target = f"{orders}.v2"
    replayed = tidelog("spark", "replay", str(lake / orders), "--topic", target, "--json", *at)
    assert json.loads(replayed.output.splitlines()[-1])["records"] == 60
    assert len(consumed(spark_node.bootstrap, target)) == 60
    optimized = tidelog("spark", "optimize", str(lake / orders), "--json")
    assert optimized.json["files_after"] == 3
    latest = tidelog("spark", "table", orders, "--to", str(tmp_path / "latest"), "--json", *at)
    assert json.loads(latest.output.splitlines()[-1])["rows"] == 60


def test_what_goes_wrong_is_one_line(
    tidelog: CommandLine, spark_node: RunningNode, orders: str, tmp_path: Path
) -> None:
    at = ("--bootstrap", spark_node.bootstrap)
    for arguments, said in (
        (("archive", "nowhere", "--to", str(tmp_path), *at), "there is no topic 'nowhere'"),
        (("archive", orders, "--to", str(tmp_path), "-b", "127.0.0.1:1"), "no broker answers"),
        (("optimize", str(tmp_path / "nothing")), "there is no archive at"),
        (("replay", str(tmp_path / "no"), "--topic", "x", *at), "there is no archive at"),
        (("replay", orders, "--topic", orders, *at), "can't be replayed into itself"),
    ):
        outcome = tidelog("spark", *arguments)
        assert outcome.code == 1
        assert (
            outcome.errors.splitlines()[-1].startswith(f"error: {said}") or said in outcome.errors
        )
        assert "Traceback" not in outcome.errors
        assert outcome.output == ""


def test_the_address_of_an_object_store_is_not_taken_for_a_directory(tidelog: CommandLine) -> None:
    for arguments in (
        ("archive", "orders", "--to", "s3://bucket/lake"),
        ("table", "orders", "--to", "s3://bucket/lake"),
        ("replay", "s3://bucket/lake/orders", "--topic", "x"),
        ("optimize", "gs://bucket/lake/orders"),
    ):
        outcome = tidelog("spark", *arguments)
        assert outcome.code == 2
        assert "must be a directory that all executors see" in outcome.errors

"""Topics are tables: `tidelog spark sql` against a real node."""

from __future__ import annotations

import csv
import io
import json
import socket
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.command_line import CommandLine, Outcome
from tests.support.node_process import RunningNode

from tidelog.client import Admin, Connection, Producer

pytestmark = pytest.mark.xdist_group("spark")

CITIES = ("Oslo", "Lisbon", "Oslo", "Marseille")


class Asking:
    """Runs queries against the shared node, in the shared session."""

    def __init__(self, tidelog: CommandLine, bootstrap: str) -> None:
        self._tidelog = tidelog
        self.bootstrap = bootstrap

    def __call__(self, query: str, *arguments: str) -> Outcome:
        return self._tidelog("spark", "sql", query, "--bootstrap", self.bootstrap, *arguments)


@pytest.fixture
def ask(spark: SparkSession, spark_node: RunningNode, tidelog: CommandLine) -> Asking:
    return Asking(tidelog, spark_node.bootstrap)


@pytest.fixture(scope="module")
def orders(spark_node: RunningNode) -> str:
    """200 JSON orders in two partitions, one record that is no JSON, one without a value."""
    name = "sql_orders"
    connection = Connection(spark_node.bootstrap)
    Admin(connection).create_topic(name, partitions=2)
    with Producer(connection) as producer:
        for number in range(200):
            order = {"order": number, "city": CITIES[number % 4], "cents": number * 10}
            producer.send(name, json.dumps(order), key=f"k{number % 7}")
        producer.send(name, "broken", key="bad")
        producer.send(name, None, key="gone")
        producer.send("sql.cities", '{"city": "Oslo", "land": "Norway"}')
    return name


def test_fields_of_json_values_are_columns(ask: Asking, orders: str) -> None:
    found = ask(
        f"select city, count(*) n, sum(cents) cents from {orders} "
        "where city is not null group by city order by city",
        "--json",
    )
    assert found.json == [
        {"city": "Lisbon", "n": 50, "cents": sum(range(1, 200, 4)) * 10},
        {"city": "Marseille", "n": 50, "cents": sum(range(3, 200, 4)) * 10},
        {"city": "Oslo", "n": 100, "cents": sum(range(0, 200, 2)) * 10},
    ]


def test_a_table_is_for_people(ask: Asking, orders: str) -> None:
    found = ask(f"select count(*) as records, max(cents) as dearest from {orders}")
    assert found.code == 0
    assert found.output.split() == ["records", "dearest", "─" * 17, "202", "1,990"]


def test_csv_has_a_header_and_every_row(ask: Asking, orders: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    found = ask(f"select key, value from {orders}", "--format", "csv", "--to", str(path))
    rows = list(csv.reader(io.StringIO(path.read_text())))
    assert found.code == 0
    assert rows[0] == ["key", "value"]
    assert len(rows) == 203
    assert ["bad", "broken"] in rows
    assert ["gone", ""] in rows


def test_parquet_is_written_where_asked(
    spark: SparkSession, ask: Asking, orders: str, tmp_path: Path
) -> None:
    path = tmp_path / "result"
    assert ask(f"select * from {orders}", "--format", "parquet", "--to", str(path)).code == 0
    assert spark.read.parquet(str(path)).where("city = 'Oslo'").count() == 100


def test_raw_columns_are_those_of_sparks_kafka_source(ask: Asking, orders: str) -> None:
    found = ask(f"select * from {orders} where key = cast('bad' as binary)", "--raw", "--json")
    row = found.json[0]
    assert list(row) == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    ]
    assert row["value"] == "broken"


def test_a_query_may_join_topics_and_come_from_a_file(
    ask: Asking, orders: str, tidelog: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "query.sql"
    path.write_text(
        f"select land, count(*) as n from {orders} join `sql.cities` using (city) group by land;\n"
    )
    found = tidelog("spark", "sql", "-f", str(path), "-b", ask.bootstrap, "--json")
    assert found.json == [{"land": "Norway", "n": 100}]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select nope from {topic}", "`nope` cannot be resolved"),
        ("selec 1", "Syntax error at or near 'selec'. (line 1, character 1)"),
        ("select * from nirvana", "there is no topic 'nirvana': see `tidelog topic list`"),
        ("select * from sql.cities", "needs backquotes: `sql.cities`"),
        ("select 1 as a, 2 as a", "two columns are called 'a'"),
        ("select cast(value as int) from {topic}", "cannot be cast to"),
    ],
    ids=["column", "syntax", "topic", "dotted", "twice", "value"],
)
def test_a_mistake_is_one_line(ask: Asking, orders: str, query: str, said: str) -> None:
    found = ask(query.format(topic=orders), "--json")
    assert found.code == 1
    assert found.errors.startswith("error: ")
    assert found.errors.count("\n") == 1
    assert said in found.errors
    assert "\tat " not in found.errors


def test_a_missing_broker_is_one_line(spark: SparkSession, tidelog: CommandLine) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        found = tidelog("spark", "sql", "select * from orders", "--bootstrap", address)
    assert found.code == 1
    assert found.errors.startswith(f"error: no broker answers at {address}")
    assert found.errors.count("\n") == 1


def test_a_wrong_option_of_the_source_is_one_line(spark: SparkSession) -> None:
    from tidelog.spark.errors import PipelineError
    from tidelog.spark.plain_errors import speaking_plainly

    reader = spark.read.format("tidelog").option("subscribe", "orders")
    with pytest.raises(PipelineError) as caught, speaking_plainly():
        reader.option("kafka.bootstrap.servers", "127.0.0.1:1").option(
            "startingOffsets", "soon"
        ).load().count()
    assert "startingOffsets" in str(caught.value)
    assert "\n" not in str(caught.value)

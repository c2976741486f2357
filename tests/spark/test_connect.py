"""Through Spark Connect: the same commands against a server that runs elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.node_process import RunningNode

from tidelog.client import Producer

pytestmark = pytest.mark.xdist_group("spark")

SERVER = """
import sys
from tidelog.spark.sessions import session

spark = session(
    "local[2]",
    **{
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.grpc.binding.address": "127.0.0.1",
    },
)
service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
print(getattr(service, "MODULE$").localPort(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a Spark Connect server; it ends with its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"sc://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait(120)
        process.stdout.close()


@pytest.fixture(scope="module")
def orders(spark_node: RunningNode) -> str:
    with Producer(spark_node.bootstrap) as producer:
        for number in range(30):
            producer.send("connect_orders", json.dumps({"order": number, "even": number % 2 == 0}))
    return "connect_orders"


def tidelog_json(*arguments: str) -> Any:
    """What the command prints. In a process of its own: this one may have a session already."""
    command = [sys.executable, "-m", "tidelog", "spark", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_topic_is_asked_in_sql(spark_node: RunningNode, server: str, orders: str) -> None:
    found = tidelog_json(
        *("sql", f"select even, count(*) n from {orders} group by even order by even"),
        *("--master", server, "--bootstrap", spark_node.bootstrap),
    )
    assert found == [{"even": False, "n": 15}, {"even": True, "n": 15}]


def test_a_topic_is_inspected(spark_node: RunningNode, server: str, orders: str) -> None:
    found = tidelog_json(
        *("inspect", orders, "--master", server, "--bootstrap", spark_node.bootstrap)
    )
    assert found["records"] == 30

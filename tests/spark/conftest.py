"""One Spark session for all tests, and nodes to read from and write to.

A session takes seconds to start, so it is shared; `pytestmark = pytest.mark.xdist_group("spark")`
keeps all modules that use it in one process. The node is shared as well: tests keep apart by the
names of their topics (`topic`), and those that stop a node start one of their own (`start_node`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.node_process import RunningNode, node_starter


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """On two cores of this machine, without a user interface."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tidelog-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """One node for tests that keep to topics and groups of their own."""
    with node_starter() as start:
        yield start(tmp_path_factory.mktemp("spark-node") / "data")


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    words = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return words[:200]


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Where a stream keeps how far it has come."""
    return str(tmp_path / "checkpoint")

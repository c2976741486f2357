"""What a node tells of itself, where it differs from the plain case."""

from __future__ import annotations

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effective_settings import node_effective
from tidelog.model.ids import NodeId
from tidelog.model.settings import node_settings, parse_settings


def told(config: NodeConfig) -> dict[str, str | None]:
    return {row.name: row.value for row in node_effective(config, recorded={}, own={})}


def test_every_row_has_a_name_of_its_own() -> None:
    rows = node_effective(NodeConfig(NodeId(1), "h", 9092), recorded={}, own={})
    assert len({row.name for row in rows}) == len(rows)
    assert all(row.doc for row in rows)


def test_where_it_listens_and_where_it_sends_others_may_differ() -> None:
    rows = told(NodeConfig(NodeId(1), "log1.example", 9092, listen_host="::"))
    assert rows["listeners"] == "PLAINTEXT://[::]:9092"
    assert rows["advertised.listeners"] == "PLAINTEXT://log1.example:9092"


def test_with_zookeeper_nobody_has_the_role_of_a_controller() -> None:
    given = parse_settings({"consensus": "zookeeper", "zookeeper.connect": "z:2181"}, "node")
    config = NodeConfig(NodeId(1), "h", 9092, settings=node_settings(given), topic_defaults=given)
    assert "process.roles" not in told(config)
    assert "process.roles" in told(NodeConfig(NodeId(1), "h", 9092))


def test_names_in_a_coarser_unit_have_the_default_and_the_first_name_what_counts() -> None:
    given = parse_settings({"retention.ms": "90000", "segment.ms": "1000"}, "node")
    rows = told(NodeConfig(NodeId(1), "h", 9092, topic_defaults=given))
    assert (rows["log.retention.ms"], rows["log.retention.minutes"]) == ("90000", "10080")
    assert (rows["log.roll.ms"], rows["log.roll.hours"]) == ("1000", "168")
    assert rows["log.roll.jitter.hours"] == "0"

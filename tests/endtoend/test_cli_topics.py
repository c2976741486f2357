"""Topics that change while they run, and settings, by the command line against a real node."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.command_line import CommandLine
from tests.support.node_process import StartNode
from tests.support.shell import Shell


def setting(shell: Shell, topic: str, name: str) -> tuple[str, str]:
    """Value and source, as a program reads them."""
    rows = shell("config", "describe", "topic", topic, "--json").json["settings"]
    row = next(row for row in rows if row["name"] == name)
    return row["value"], row["source"]


def test_a_topic_gets_more_partitions_and_goes_on(shell: Shell) -> None:
    shell.produce(b"before\n", "orders")
    altered = shell("topic", "alter", "orders", "--partitions", "3")
    assert (altered.code, altered.output) == (0, "orders: 1 → 3 partitions\n")
    shell.produce(b"after\n", "orders", "--partition", "2")
    assert sorted(shell.values("orders")) == ["after", "before"]
    again = shell("topic", "alter", "orders", "--partitions", "3")
    assert (again.code, again.output) == (0, "orders: has 3 partitions already\n")


def test_settings_are_set_and_taken_away(shared_shell: Shell) -> None:
    shell = shared_shell
    shell("topic", "create", "changing")
    changed = shell("topic", "alter", "changing", "--set", "retention.ms=5400000")
    assert changed.output == "changing: retention.ms is 5400000 (1 h 30 min)\n"
    assert setting(shell, "changing", "retention.ms") == ("5400000", "topic")
    assert (
        shell("config", "set", "topic", "changing", "segment.ms=60000", "flush.policy=os").code == 0
    )
    assert setting(shell, "changing", "flush.policy") == ("os", "topic")
    taken = shell("topic", "alter", "changing", "--unset", "retention.ms", "--json")
    assert taken.json["settings"] == {"retention.ms": "604800000"}
    assert setting(shell, "changing", "retention.ms") == ("604800000", "default")
    unset = shell("config", "unset", "topic", "changing", "segment.ms", "flush.policy", "--json")
    assert [row["source"] for row in unset.json["settings"]] == ["default", "default"]


def test_one_wrong_setting_changes_none(shared_shell: Shell) -> None:
    shared_shell("topic", "create", "careful")
    refused = shared_shell("config", "set", "topic", "careful", "retention.ms=1", "segment.bytes=1")
    assert refused.code == 1
    assert "segment.bytes must be at least 1024" in refused.errors
    assert setting(shared_shell, "careful", "retention.ms")[1] == "default"


def test_a_description_has_offsets_sizes_and_own_settings_first(shell: Shell) -> None:
    shell("topic", "create", "orders", "--partitions", "2", "--set", "segment.bytes=2000000")
    shell("produce", "orders", "--count", "500", "--partition", "1")
    described = shell("topic", "describe", "orders", "--json").json
    empty, full = described["partitions"]
    assert (empty["records"], empty["end_offset"]) == (0, 0)
    assert (full["start_offset"], full["end_offset"], full["records"]) == (0, 500, 500)
    assert full["size_bytes"] > 500 * 100 > empty["size_bytes"]
    assert described["settings"][0] == {
        "name": "segment.bytes",
        "value": "2000000",
        "source": "topic",
    }
    assert {row["source"] for row in described["settings"][1:]} == {"default"}
    shown = shell("topic", "describe", "orders").output.splitlines()
    assert shown[0].startswith("orders: 2 partitions, 500 records, ")
    first_setting = next(line for line in shown if "." in line and "topic" in line.split())
    assert first_setting.split() == ["segment.bytes", "2000000", "1.9", "MiB", "topic"]


def test_records_are_deleted_only_with_yes(shell: Shell) -> None:
    shell.produce(b"0\n1\n2\n3\n4\n", "numbers")
    planned = shell("topic", "delete-records", "numbers", "--before", "3")
    assert planned.code == 0
    assert "3 records would be deleted.\nNothing has changed" in planned.output
    assert shell.values("numbers") == ["0", "1", "2", "3", "4"]
    done = shell("topic", "delete-records", "numbers", "--before", "3", "--yes")
    assert "3 records deleted." in done.output
    assert shell.values("numbers") == ["3", "4"]
    emptied = shell("topic", "delete-records", "numbers", "--before", "end", "--yes", "--json").json
    assert emptied["partitions"] == [
        {
            "partition": 0,
            "old_start_offset": 3,
            "new_start_offset": 5,
            "end_offset": 5,
            "records": 2,
        }
    ]
    shell.produce(b"5\n", "numbers")
    assert shell("consume", "numbers", "-e", "--format", r"{offset} {value}\n").output == "5 5\n"


def test_records_can_be_deleted_by_age(shell: Shell) -> None:
    shell.produce(b"old\n", "numbers")
    kept = shell("topic", "delete-records", "numbers", "--before", "1h", "--json").json
    assert kept["partitions"][0]["records"] == 0
    gone = shell("topic", "delete-records", "numbers", "--before", "2100-01-01", "--json").json
    assert gone["partitions"][0]["records"] == 1


def test_what_a_node_was_given_is_its_own(
    start_node: StartNode, tidelog: CommandLine, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data", "--set", "num.partitions=4", "--set", "retention.ms=5000")
    described = tidelog("config", "describe", "node", "--bootstrap", node.bootstrap, "--json").json
    own = {row["name"]: row["value"] for row in described["settings"] if row["source"] == "node"}
    assert described["node"] == "1"
    assert (own["num.partitions"], own["retention.ms"], own["log.retention.ms"]) == (
        "4",
        "5000",
        "5000",
    )
    assert own["log.dirs"] == str(tmp_path / "data")
    assert own["listeners"] == f"PLAINTEXT://{node.bootstrap}"
    shown = tidelog("config", "describe", "node", "1", "--bootstrap", node.bootstrap)
    assert "What its topics have unless they say otherwise:" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80


def test_a_group_is_given_settings_before_there_is_one(shell: Shell) -> None:
    shell("config", "set", "group", "billing", "consumer.session.timeout.ms=50000")
    told = shell("config", "describe", "group", "billing", "--json").json
    assert told == {
        "group": "billing",
        "settings": [
            {"name": "consumer.session.timeout.ms", "value": "50000", "source": "group"},
            {"name": "consumer.heartbeat.interval.ms", "value": "5000", "source": "default"},
        ],
    }
    said = shell("config", "unset", "group", "billing", "consumer.session.timeout.ms").output
    assert said == "billing: consumer.session.timeout.ms is 45000 (45 s, from the default)\n"
    refused = shell("config", "set", "group", "billing", "consumer.session.timeout.ms=1")
    assert (refused.code, "group.consumer.min.session.timeout.ms" in refused.errors) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topic", "alter", "orders", "--partitions", "1"), "partitions can't be taken away"),
        (("topic", "alter", "nothing", "--partitions", "2"), "there is no topic 'nothing'"),
        (("topic", "alter", "orders", "--set", "retention.m=1"), "did you mean retention.ms?"),
        (("topic", "alter", "orders", "--set", "nonsense=1"), "see `tidelog config list`"),
        (("topic", "alter", "orders", "--set", "retention.ms=soon"), "a whole number"),
        (("topic", "alter", "orders", "--unset", "nonsense"), "nonsense"),
        (("config", "set", "topic", "nothing", "retention.ms=1"), "there is no topic 'nothing'"),
        (("config", "set", "topic", "orders", "flush.policy=never"), "ack, os"),
        (("config", "describe", "topic", "nothing"), "there is no topic 'nothing'"),
        (("config", "describe", "node", "7"), "there is no node 7: there is 1"),
        (("topic", "delete-records", "orders", "--before", "3"), "say which with --partition N"),
        (("topic", "delete-records", "orders", "--before", "3", "-p", "0"), "not in partition 0"),
        (("topic", "delete-records", "orders", "--before", "end", "-p", "7"), "no partition 7"),
        (("topic", "delete-records", "nothing", "--before", "end"), "there is no topic 'nothing'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_refusal_is_one_line_and_code_1(
    shared_shell: Shell, arguments: tuple[str, ...], said: str
) -> None:
    shared_shell("topic", "create", "orders", "--partitions", "2")
    outcome = shared_shell(*arguments)
    assert outcome.code == 1
    assert outcome.errors.startswith("error: ")
    assert outcome.errors.count("\n") == 1
    assert said in outcome.errors


def test_an_operator_confirms_the_clock(shared_shell: Shell) -> None:
    told = shared_shell("cluster", "confirm-clock", "--json")
    assert told.code == 0
    rows = {
        row["name"]: row["value"]
        for row in shared_shell("config", "describe", "node", "--json").json["settings"]
    }
    assert rows["clock.confirmed.ms"] == str(told.json["confirmed_ms"])

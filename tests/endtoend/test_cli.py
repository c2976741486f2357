"""The commands against a real node: what goes in comes out, and mistakes are said in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine
from tests.support.node_process import RunningNode, StartNode
from tests.support.shell import Shell

from tidelog.cli.node_process import NodeFailed


def test_a_topic_lives_from_create_to_delete(shell: Shell) -> None:
    assert "no topics yet" in shell("topic", "list").output
    created = shell("topic", "create", "orders", "--partitions", "3")
    assert (created.code, created.output) == (0, "created topic orders with 3 partitions\n")
    assert shell("topic", "list", "--json").json == [
        {"topic": "orders", "partitions": 3, "replication_factor": 1, "records": 0}
    ]
    described = shell("topic", "describe", "orders", "--json").json
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2]
    assert {row["leader"] for row in described["partitions"]} == {1}
    assert shell("topic", "delete", "orders").code == 0
    assert shell("topic", "list", "--json").json == []


def test_tables_fit_80_columns(shell: Shell) -> None:
    shell("topic", "create", "a-topic-with-" + "a-very-" * 12 + "long-name")
    shell("produce", "orders", "--count", "1000")
    for arguments in (("topic", "list"), ("topic", "describe", "orders")):
        outcome = shell(*arguments)
        assert outcome.code == 0
        assert max(map(len, outcome.output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topic", "create", "orders"), "topic 'orders' exists already"),
        (("topic", "create", "bad name"), "INVALID_TOPIC_EXCEPTION"),
        (("topic", "create", "other", "--replication-factor", "3"), "INVALID_REPLICATION_FACTOR"),
        (("topic", "create", "other", "--set", "segment.bytes=1"), "segment.bytes"),
        (("topic", "create", "other", "--set", "no.such=1"), "no.such"),
        (("topic", "describe", "nothing"), "there is no topic 'nothing'"),
        (("topic", "delete", "nothing"), "there is no topic 'nothing'"),
        (("consume", "nothing"), "there is no topic 'nothing'"),
        (("consume", "orders", "--partition", "7"), "no partition 7"),
        (("consume", "orders", "--from", "5"), "not in partition 0"),
        (("produce", "orders", "--partition", "7", "--count", "1"), "nknown partition"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_refusal_is_one_line_and_code_1(
    shared_shell: Shell, arguments: tuple[str, ...], said: str
) -> None:
    shared_shell("topic", "create", "orders")
    outcome = shared_shell(*arguments)
    assert outcome.code == 1
    assert outcome.errors.startswith("error: ")
    assert outcome.errors.count("\n") == 1
    assert said in outcome.errors


def test_lines_go_in_and_come_out_in_order(shell: Shell) -> None:
    sent = shell.produce(b"one\ntwo\n\nfour \xff\n", "letters", "--json")
    assert sent.code == 0
    assert sent.json["records"] == 4
    assert sent.json["partitions"] == [{"partition": 0, "first_offset": 0, "last_offset": 3}]
    received = shell("consume", "letters", "--exit-at-end", "--json").output.splitlines()
    records = [json.loads(line) for line in received]
    assert [record.get("value") for record in records] == ["one", "two", "", None]
    assert records[3]["value_base64"] == "Zm91ciD/"
    assert [record["offset"] for record in records] == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back_as_it_went(shared_shell: Shell, codec: str) -> None:
    arguments = ("--count", "500", "--size", "200", "--compression", codec)
    assert shared_shell("produce", codec, *arguments).code == 0
    assert len(shared_shell.values(codec)) == 500


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_kind_of_acks_delivers(shared_shell: Shell, acks: str) -> None:
    topic = f"acks-{acks}"
    shared_shell("topic", "create", topic)
    sent = shared_shell("produce", topic, "--count", "50", "--acks", acks, "--json")
    assert sent.json["records"] == 50
    assert shared_shell("consume", topic, "--max", "50").output.count("\n") == 50


def test_keys_headers_and_partitions_are_kept(shell: Shell) -> None:
    shell("topic", "create", "orders", "--partitions", "4")
    shell.produce(b"k=v\n", "orders", "--key-separator", "=", "--header", "a=1", "--partition", "2")
    layout = r"{topic}/{partition}/{offset} {key}:{value} {headers}\n"
    outcome = shell("consume", "orders", "--exit-at-end", "--format", layout)
    assert outcome.output == "orders/2/0 k:v a=1\n"


def test_the_same_key_goes_to_the_same_partition(shell: Shell) -> None:
    shell("topic", "create", "orders", "--partitions", "4")
    shell.produce(b"a:1\nb:1\na:2\nb:2\na:3\n", "orders", "--key-separator", ":")
    outcome = shell("consume", "orders", "--exit-at-end", "--format", r"{key} {partition}\n")
    pairs = {tuple(line.split()) for line in outcome.output.splitlines()}
    assert len(pairs) == 2


def test_reading_starts_where_it_is_told(shell: Shell) -> None:
    shell.produce(b"0\n1\n2\n3\n4\n", "numbers")
    assert shell.values("numbers", "--from", "beginning") == ["0", "1", "2", "3", "4"]
    assert shell.values("numbers", "--from", "3") == ["3", "4"]
    assert shell.values("numbers", "--from", "5") == []
    assert shell.values("numbers", "--from", "end") == []
    assert shell.values("numbers", "--from", "1h") == ["0", "1", "2", "3", "4"]
    assert shell.values("numbers", "--from", "2100-01-01") == []
    assert shell("consume", "numbers", "--max", "2").output == "0\n1\n"


def test_a_topic_with_several_partitions_wants_to_know_whose_offset(shell: Shell) -> None:
    shell("topic", "create", "orders", "--partitions", "2")
    outcome = shell("consume", "orders", "--from", "0")
    assert outcome.code == 1
    assert "--partition N" in outcome.errors


def test_a_record_too_large_is_refused_and_the_others_are_sent(shell: Shell) -> None:
    outcome = shell.produce(b"small\n" + b"x" * 2_000_000 + b"\n", "orders", "--json")
    assert outcome.code == 1
    assert outcome.json["records"] == 1
    assert "larger than topic 'orders' allows" in outcome.errors
    assert shell.values("orders") == ["small"]


def test_what_was_acknowledged_survives_kill_9(shell: Shell, node: RunningNode) -> None:
    assert shell("produce", "load", "--count", "2000").code == 0
    node.kill()
    node.restart()
    assert len(shell.values("load")) == 2000


def test_a_stopped_node_leaves_whole_files(
    shell: Shell, tidelog: CommandLine, node: RunningNode
) -> None:
    shell("produce", "load", "--count", "20000")
    assert node.stop() == 0
    outcome = tidelog("dump", str(node.data_dir))
    assert outcome.code == 0
    documents = tidelog("dump", str(node.data_dir), "--json").json
    counts = [batch["records"] for each in documents for batch in each.get("batches", ())]
    assert sum(counts) >= 20_000
    assert any(each["entries"] for each in documents if each["file"].endswith(".index"))


def test_the_demo_ends_well(tidelog: CommandLine) -> None:
    outcome = tidelog("demo", "--orders", "2000")
    assert outcome.code == 0
    assert "2,000 orders in, the same out: none lost, none twice" in outcome.output


def test_standard_input_is_read(shell: Shell) -> None:
    process = shell.process("produce", "letters")
    output, errors = process.communicate(b"a\nb\n", timeout=120)
    assert (process.returncode, errors) == (0, b"")
    assert output.startswith(b"sent 2 records to letters")
    assert shell.values("letters") == ["a", "b"]


def test_a_reader_that_leaves_early_is_no_error_to_speak_of(shell: Shell) -> None:
    shell("produce", "load", "--count", "50000")
    process = shell.process("consume", "load")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(120) != 0


def test_ctrl_c_is_quiet(shell: Shell) -> None:
    shell.produce(b"hello\n", "letters")
    process = shell.process("consume", "letters")
    assert process.stdout is not None
    assert process.stdout.readline() == b"hello\n"
    process.send_signal(2)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, output, errors) == (130, b"", b"")


def test_a_follower_sees_what_comes_later(shell: Shell) -> None:
    shell.produce(b"first\n", "letters")
    process = shell.process("consume", "letters", "--max", "2")
    assert process.stdout is not None
    assert process.stdout.readline() == b"first\n"
    shell.produce(b"second\n", "letters")
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, output, errors) == (0, b"second\n", b"")


def test_serve_says_ready_once_and_stops_cleanly_on_both_signals(
    start_node: StartNode, tmp_path: Path
) -> None:
    for number, name in ((15, "term"), (2, "int")):
        node = start_node(tmp_path / name)
        node.process.send_signal(number)
        output, _ = node.process.communicate(timeout=120)
        assert (node.process.returncode, output) == (0, b"")


def test_a_second_node_on_the_same_port_or_directory_is_refused(
    start_node: StartNode, node: RunningNode, tmp_path: Path
) -> None:
    with pytest.raises(NodeFailed, match="another process uses"):
        start_node(node.data_dir)
    with pytest.raises(NodeFailed, match="can't listen on"):
        start_node(tmp_path / "other", "--listen", node.bootstrap)


def test_settings_reach_the_node(
    start_node: StartNode, tidelog: CommandLine, tmp_path: Path
) -> None:
    config = tmp_path / "tidelog.toml"
    config.write_text("[settings]\nnum.partitions = 4\n")
    node = start_node(tmp_path / "data", "--config", str(config))
    created = tidelog("topic", "create", "orders", "--bootstrap", node.bootstrap, "--json")
    assert created.json == {"topic": "orders", "partitions": 4}


def test_a_follower_waits_for_a_node_that_comes_back(node: RunningNode, shell: Shell) -> None:
    shell.produce(b"before\n", "letters")
    process = shell.process("consume", "letters", "--max", "2")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"before\n"
    node.kill()
    assert b"does not answer; waiting for it" in process.stderr.readline()
    node.restart()
    shell.produce(b"after\n", "letters")
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (0, b"after\n")

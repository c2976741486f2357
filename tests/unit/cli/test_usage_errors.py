"""A wrong command line gets one line that says what is wrong and where to look, and code 2."""

from __future__ import annotations

import socket

import pytest
from tests.support.command_line import CommandLine

WRONG = [
    (("nonsense",), "nonsense"),
    (("topik", "list"), "Did you mean 'topic'?"),
    (("topic", "crate"), "Did you mean 'create'"),
    (("topic", "create"), "TOPIC"),
    (("topic", "create", "orders", "--partitions", "0"), "--partitions"),
    (("topic", "create", "orders", "--set", "nonsense"), "NAME=VALUE"),
    (("topic", "list", "--nonsense"), "--nonsense"),
    (("topic", "describe", ""), "must not be empty"),
    (("consume", "orders", ""), "must not be empty"),
    (("consume", "orders", "--group", ""), "must not be empty"),
    (("group", "describe", ""), "must not be empty"),
    (("config", "set", "topic", "", "retention.ms=1"), "must not be empty"),
    (("produce",), "TOPIC"),
    (("produce", "orders", "--compression", "zip"), "zstd"),
    (("produce", "orders", "--acks", "2"), "--acks"),
    (("produce", "orders", "--header", "nonsense"), "NAME=VALUE"),
    (("produce", "orders", "--key-separator", ""), "--key-separator"),
    (("produce", "orders", "--file", "no such file"), "no such file"),
    (("consume", "orders", "--from", "nowhere"), "beginning, end, an offset"),
    (("consume", "orders", "--format", "{nonsense}"), "known are topic, partition"),
    (("consume", "orders", "--format", "x", "--json"), "not both"),
    (("consume",), "TOPIC"),
    (("consume", "^orders"), "give --group"),
    (("consume", "a", "b", "--partition", "1"), "single topic"),
    (("consume", "a", "b", "--from", "17"), "single topic"),
    (("consume", "orders", "--protocol", "classic"), "give --group"),
    (("consume", "orders", "--group", "g", "--protocol", "other"), "classic"),
    (("consume", "orders", "--group", "g", "--partition", "1"), "the group assigns partitions"),
    (("consume", "orders", "--group", "g", "--from", "17"), "reset-offsets"),
    (("topic", "alter", "orders"), "--partitions, --set or --unset"),
    (("topic", "create", "orders", "--partitions", "9999999"), "100000"),
    (("topic", "alter", "orders", "--partitions", "0"), "--partitions"),
    (("topic", "alter", "orders", "--partitions", "9999999"), "100000"),
    (("topic", "alter", "orders", "--set", "nonsense"), "NAME=VALUE"),
    (("topic", "alter", "orders", "--set", "a=1", "--unset", "a"), "both set and unset"),
    (("topic", "delete-records", "orders"), "--before"),
    (("topic", "delete-records", "orders", "--before", "never"), "an offset"),
    (("group", "describe"), "GROUP"),
    (("group", "list", "--state", "happy"), "stable"),
    (("group", "rest-offsets"), "Did you mean 'reset-offsets'"),
    (("group", "reset-offsets", "g", "--to", "latest"), "--topic TOPIC or --all-topics"),
    (("group", "reset-offsets", "g", "--topic", "a", "--all-topics", "--to", "1"), "not both"),
    (("group", "reset-offsets", "g", "--topic", "a"), "--to"),
    (("group", "reset-offsets", "g", "--topic", "a", "--to", "nowhere"), "earliest, latest"),
    (("group", "reset-offsets", "g", "--topic", "a:x", "--to", "1"), "orders:0,2-4"),
    (("group", "delete-offsets", "g"), "--topic TOPIC or --all-topics"),
    (("config", "list", "no.such.setting"), "no.such.setting"),
    (("config", "list", "--scope", "world"), "topic"),
    (("config", "list", "--markdown", "--json"), "the whole page"),
    (("config", "describe", "topic"), "say which topic"),
    (("config", "describe", "node", "one"), "its number"),
    (("config", "set", "topic", "orders"), "KEY=VALUE"),
    (("config", "set", "topic", "orders", "nonsense"), "NAME=VALUE"),
    (("config", "set", "node", "1", "num.partitions=4"), "tidelog serve --set"),
    (("config", "unset", "node", "1", "num.partitions"), "tidelog serve --set"),
    (("completion", "tcsh"), "bash"),
    (("demo", "everything"), "pipeline"),
    (("spark", "sql"), "give a query"),
    (("spark", "sql", " ; "), "the query is empty"),
    (("spark", "sql", "select 1", "--format", "xml"), "parquet"),
    (("spark", "sql", "select 1", "--format", "parquet"), "--to"),
    (("spark", "sql", "select 1", "--conf", "nonsense"), "NAME=VALUE"),
    (("spark", "inspect", ""), "must not be empty"),
    (("spark", "pipeline", "init", "shop", "--template", "magic"), "dead-letters"),
    (("spark", "pipeline", "run"), "NAME"),
    (("dump", "no such file"), "no such file"),
    (("serve", "--nonsense"), "--nonsense"),
    (("serve", "--listen", "9092"), "HOST:PORT"),
    (("serve", "--set", "num.partitions=many"), "whole number"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(each) for each, _ in WRONG])
def test_a_wrong_command_line_gets_one_line_and_code_2(
    tidelog: CommandLine, arguments: tuple[str, ...], said: str
) -> None:
    outcome = tidelog(*arguments)
    assert outcome.code == 2
    assert outcome.output == ""
    assert outcome.errors.startswith("error: ")
    assert outcome.errors.count("\n") == 1
    assert said in outcome.errors
    assert "--help`" in outcome.errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "list"),
        ("topic", "alter", "orders", "--partitions", "2"),
        ("produce", "orders", "--count", "1"),
        ("consume", "orders"),
        ("consume", "orders", "--group", "billing"),
        ("group", "list"),
        ("group", "describe", "billing"),
        ("config", "describe", "node"),
        ("spark", "inspect", "orders"),
    ],
    ids=" ".join,
)
def test_a_missing_broker_is_said_at_once_with_what_to_do(
    tidelog: CommandLine, arguments: tuple[str, ...]
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        outcome = tidelog(*arguments, "--bootstrap", address)
    assert outcome.code == 1
    assert outcome.errors == (
        f"error: no broker answers at {address}: start one with `tidelog serve`, "
        "or give --bootstrap HOST:PORT\n"
    )


def test_an_address_that_is_none_is_refused(tidelog: CommandLine) -> None:
    outcome = tidelog("topic", "list", "--bootstrap", "localhost")
    assert outcome.code == 1
    assert "HOST:PORT, not 'localhost'" in outcome.errors

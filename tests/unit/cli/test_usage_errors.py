"""A wrong command line gets one line that says what is wrong and where to look, and code 2."""

from __future__ import annotations

import socket

import pytest
from tests.support.command_line import CommandLine

WRONG = [
    (("nonsense",), "nonsense"),
    (("topik", "list"), "Did you mean 'topic'?"),
    (("topic", "crate"), "Did you mean 'create'?"),
    (("topic", "create"), "TOPIC"),
    (("topic", "create", "orders", "--partitions", "0"), "--partitions"),
    (("topic", "create", "orders", "--set", "nonsense"), "NAME=VALUE"),
    (("topic", "list", "--nonsense"), "--nonsense"),
    (("produce",), "TOPIC"),
    (("produce", "orders", "--compression", "zip"), "zstd"),
    (("produce", "orders", "--acks", "2"), "--acks"),
    (("produce", "orders", "--header", "nonsense"), "NAME=VALUE"),
    (("produce", "orders", "--key-separator", ""), "--key-separator"),
    (("produce", "orders", "--file", "no such file"), "no such file"),
    (("consume", "orders", "--from", "nowhere"), "beginning, end, an offset"),
    (("consume", "orders", "--format", "{nonsense}"), "known are topic, partition"),
    (("consume", "orders", "--format", "x", "--json"), "not both"),
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
    [("topic", "list"), ("produce", "orders", "--count", "1"), ("consume", "orders")],
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

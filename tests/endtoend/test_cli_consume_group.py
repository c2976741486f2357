"""`consume --group`: what is printed is committed, what is not printed comes again."""

from __future__ import annotations

import signal
import subprocess

import pytest
from tests.support.shell import Shell, settle, until

PROTOCOLS = ("classic", "consumer")


def numbers(first: int, end: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(first, end))


def read_lines(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip() for _ in range(count)]


def lag_of(shell: Shell, group: str) -> int | None:
    rows = {row["group"]: row["lag"] for row in shell("group", "list", "--json").json}
    lag: int | None = rows.get(group)
    return lag


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_goes_on_where_it_was(shell: Shell, protocol: str) -> None:
    shell.produce(numbers(0, 10), "orders")
    arguments = ("consume", "orders", "--group", "billing", "--protocol", protocol)
    assert shell(*arguments, "--max", "4").output.split() == ["0", "1", "2", "3"]
    assert lag_of(shell, "billing") == 6
    assert shell(*arguments, "--exit-at-end").output.split() == ["4", "5", "6", "7", "8", "9"]
    assert shell(*arguments, "--exit-at-end").output == ""
    (row,) = shell("group", "list", "--json").json
    assert (row["state"], row["lag"], row["members"]) == ("empty", 0, 0)


def test_a_new_group_may_begin_at_the_end(shell: Shell) -> None:
    shell.produce(numbers(0, 5), "orders")
    assert shell.values("orders", "--group", "late", "--from", "end") == []
    assert shell.values("orders", "--group", "early", "--from", "beginning") == [*"01234"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pattern_reads_all_topics_it_fits(shell: Shell, protocol: str) -> None:
    for topic in ("orders-eu", "orders-us", "returns"):
        shell("topic", "create", topic)
        shell.produce(topic.encode() + b"\n", topic)
    arguments = ("^orders-.*", "--group", "billing", "--protocol", protocol)
    read = shell("consume", *arguments, "--max", "2").output.split()
    assert sorted(read) == ["orders-eu", "orders-us"]


def test_several_topics_are_read_with_and_without_a_group(shell: Shell) -> None:
    shell.produce(b"a\n", "one")
    shell.produce(b"b\n", "two")
    assert sorted(shell.values("one", "two")) == ["a", "b"]
    assert sorted(shell.values("one", "two", "--group", "both")) == ["a", "b"]


def test_two_processes_share_a_topic(shell: Shell) -> None:
    shell("topic", "create", "orders", "--partitions", "2")
    processes = [shell.process("consume", "orders", "--group", "billing") for _ in range(2)]
    try:

        def is_shared() -> bool:
            groups = shell("group", "list", "--json").json
            if [row["members"] for row in groups] != [2]:
                return False
            members = shell("group", "describe", "billing", "--json").json["members"]
            return [len(member["partitions"]) for member in members] == [1, 1]

        until(is_shared)
        shell.produce(b"left\n", "orders", "--partition", "0")
        shell.produce(b"right\n", "orders", "--partition", "1")
        seen = {line for process in processes for line in read_lines(process, 1)}
        assert seen == {b"left", b"right"}
        until(lambda: lag_of(shell, "billing") == 0)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_running_group_is_joined_whatever_its_assignor(shell: Shell, strategy: str) -> None:
    shell("topic", "create", "orders", "--partitions", "2")
    options = {"partition.assignment.strategy": strategy}
    with shell.member("billing", "orders", **options) as member:
        settle(member)
        process = shell.process("consume", "orders", "--group", "billing")

        def is_shared() -> bool:
            member.poll(0.05)
            members = shell("group", "describe", "billing", "--json").json["members"]
            return [len(each["partitions"]) for each in members] == [1, 1]

        try:
            until(is_shared)
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_is_stopped_has_committed_and_leaves_at_once(
    shell: Shell, number: signal.Signals, code: int
) -> None:
    shell.produce(numbers(0, 3), "orders")
    process = shell.process("consume", "orders", "--group", "billing")
    assert read_lines(process, 3) == [b"0", b"1", b"2"]
    until(lambda: lag_of(shell, "billing") == 0)
    process.send_signal(number)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, output, errors) == (code, b"", b"")
    (row,) = shell("group", "list", "--json").json
    assert (row["state"], row["lag"]) == ("empty", 0)


def test_what_could_not_be_printed_comes_again(shell: Shell) -> None:
    shell("produce", "load", "--count", "20000", "--size", "500")
    process = shell.process("consume", "load", "--group", "billing")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(120) != 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    rest = shell("consume", "load", "--group", "billing", "--exit-at-end").output
    assert rest.count("\n") > 15_000


def test_a_member_waits_for_a_node_that_comes_back(shell: Shell) -> None:
    shell.produce(b"before\n", "letters")
    process = shell.process("consume", "letters", "--group", "billing", "--max", "2")
    assert process.stderr is not None
    assert read_lines(process, 1) == [b"before"]
    until(lambda: lag_of(shell, "billing") == 0)
    shell.node.kill()
    assert b"does not answer; waiting for it" in process.stderr.readline()
    shell.node.restart()
    shell.produce(b"after\n", "letters")
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, b"after\n")
    assert lag_of(shell, "billing") == 0


@pytest.mark.parametrize(
    ("topic", "said"), [("nothing", "there is no topic 'nothing'"), ("^(", "a wrong pattern")]
)
def test_a_topic_that_can_not_be_read_is_said(shared_shell: Shell, topic: str, said: str) -> None:
    outcome = shared_shell("consume", topic, "--group", "billing")
    assert (outcome.code, outcome.errors.count("\n")) == (1, 1)
    assert said in outcome.errors

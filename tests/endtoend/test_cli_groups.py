"""Groups by the command line, with real members of both protocols."""

from __future__ import annotations

import pytest
from tests.support.command_line import CommandLine
from tests.support.shell import Shell, settle, until
from tests.support.tab_key import TabKey

PROTOCOLS = ("classic", "consumer")


def numbers(count: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(count))


def committed(shell: Shell, group: str) -> dict[int, int | None]:
    rows = shell("group", "describe", group, "--json").json["partitions"]
    return {row["partition"]: row["committed_offset"] for row in rows}


def test_no_groups_is_no_error_and_says_how_to_make_one(shell: Shell) -> None:
    outcome = shell("group", "list")
    assert outcome.code == 0
    assert "tidelog consume TOPIC --group NAME" in outcome.output
    assert shell("group", "list", "--json").json == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_live_group_is_described_with_owners_and_lag(shell: Shell, protocol: str) -> None:
    shell.produce(numbers(20), "orders")
    with shell.member("billing", "orders", protocol=protocol, client_id="app-1") as member:
        settle(member)
        until(lambda: shell("group", "describe", "billing", "--json").json["state"] == "stable")
        shell.commit_as(member, "orders", p0=15)
        described = shell("group", "describe", "billing", "--json").json
        assert described["protocol"] == protocol
        assert described["assignor"] == ("range" if protocol == "classic" else "uniform")
        (one,) = described["members"]
        assert (one["client_id"], one["host"]) == ("app-1", "127.0.0.1")
        assert one["partitions"] == [{"topic": "orders", "partition": 0}]
        (row,) = described["partitions"]
        assert row["member_id"] == one["member_id"]
        assert (row["committed_offset"], row["end_offset"], row["lag"]) == (15, 20, 5)
        assert 0 <= row["behind_s"] < 3600
        assert (described["lag"], described["behind_s"]) == (5, row["behind_s"])
        listed = shell("group", "list", "--state", "stable", "--json").json
        assert listed == [
            {"group": "billing", "state": "stable", "protocol": protocol, "members": 1, "lag": 5}
        ]
        assert shell("group", "list", "--state", "empty", "--json").json == []
        shown = shell("group", "describe", "billing").output.splitlines()
        assert shown[0].startswith(f"billing: stable, 1 member, {protocol} protocol (")
        assert shown[1].startswith("5 records to read, the oldest for ")


def test_three_members_share_and_the_tables_fit_80_columns(shell: Shell) -> None:
    shell("topic", "create", "orders", "--partitions", "3")
    with (
        shell.member("billing", "orders", client_id="app-a") as first,
        shell.member("billing", "orders", client_id="app-b", group_instance_id="b") as second,
        shell.member("billing", "orders", client_id="app-c") as third,
    ):
        settle(first, second, third)
        outcome = shell("group", "describe", "billing")
        assert max(map(len, outcome.output.splitlines())) <= 80
        assert "Instance" in outcome.output
        assert "Nothing committed yet, so not counted: orders:0-2." in outcome.output


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_live_group_is_neither_moved_nor_deleted(shell: Shell, protocol: str) -> None:
    shell.produce(numbers(5), "orders")
    with shell.member("billing", "orders", protocol=protocol, client_id="app-1") as member:
        settle(member)
        shell.commit_as(member, "orders", p0=3)
        reset = ("group", "reset-offsets", "billing", "--topic", "orders", "--to", "earliest")
        planned = shell(*reset)
        assert planned.code == 0
        assert "--yes will be refused while the group has 1 live member" in planned.errors
        for arguments in (
            (*reset, "--yes"),
            ("group", "delete", "billing"),
            ("group", "delete-offsets", "billing", "--topic", "orders", "--yes"),
        ):
            refused = shell(*arguments)
            assert (refused.code, refused.errors.count("\n")) == (1, 1)
            assert "stop" in refused.errors
        assert committed(shell, "billing") == {0: 3}


@pytest.mark.parametrize(
    ("to", "new"),
    [("earliest", 0), ("latest", 10), ("7", 7), ("+2", 6), ("-2", 2), ("-99", 0), ("1h", 0)],
)
def test_offsets_move_only_with_yes(shared_shell: Shell, to: str, new: int) -> None:
    topic, group = f"to{to}".replace("+", "plus"), f"group{to}"
    shared_shell.produce(numbers(10), topic)
    shared_shell.commit(group, topic, p0=4)
    reset = ("group", "reset-offsets", group, "--topic", topic, "--to", to)
    planned = shared_shell(*reset)
    assert planned.code == 0
    assert "Nothing has changed: this is what --yes would do." in planned.output
    assert committed(shared_shell, group) == {0: 4}
    done = shared_shell(*reset, "--yes", "--json").json
    assert (done["dry_run"], done["partitions"][0]["new_offset"]) == (False, new)
    assert committed(shared_shell, group) == {0: new}
    assert shared_shell.values(topic, "--group", group) == [str(each) for each in range(new, 10)]


def test_some_partitions_move_and_the_others_stay(shell: Shell) -> None:
    shell("topic", "create", "orders", "--partitions", "4")
    shell.commit("billing", "orders", p0=0, p1=0, p2=0)
    for partition in ("0", "1", "2", "3"):
        shell("produce", "orders", "--count", "9", "--partition", partition)
    arguments = ("--topic", "orders:1,3", "--to", "latest", "--yes")
    shown = shell("group", "reset-offsets", "billing", *arguments)
    assert "2 partitions moved, 9 records skipped." in shown.output
    assert committed(shell, "billing") == {0: 0, 1: 9, 2: 0, 3: 9}
    everything = shell("group", "reset-offsets", "billing", "--all-topics", "--to", "5", "--json")
    assert [row["new_offset"] for row in everything.json["partitions"]] == [5, 5, 5, 5]


def test_a_group_that_does_not_exist_yet_can_be_given_a_place(shell: Shell) -> None:
    shell.produce(numbers(5), "orders")
    reset = ("group", "reset-offsets", "new", "--topic", "orders", "--to", "3")
    assert "There is no group new yet: --yes makes it." in shell(*reset).output
    assert shell("group", "list", "--json").json == []
    assert shell(*reset, "--yes").code == 0
    assert shell.values("orders", "--group", "new") == ["3", "4"]


def test_offsets_are_forgotten_only_with_yes(shell: Shell) -> None:
    shell("topic", "create", "orders", "--partitions", "2")
    shell.commit("billing", "orders", p0=0, p1=0)
    forget = ("group", "delete-offsets", "billing", "--topic", "orders:1")
    assert "Would be deleted: 1 committed offset" in shell(*forget).output
    assert committed(shell, "billing") == {0: 0, 1: 0}
    assert shell(*forget, "--yes", "--json").json["partitions"] == [
        {"topic": "orders", "partition": 1, "committed_offset": 0}
    ]
    assert committed(shell, "billing") == {0: 0}


def test_a_group_is_deleted_with_all_it_has_committed(shell: Shell) -> None:
    shell.produce(numbers(5), "orders")
    shell.commit("billing", "orders", p0=3)
    assert shell("group", "delete", "billing").output == "deleted group billing\n"
    assert shell("group", "list", "--json").json == []


def test_a_group_outlives_the_node_and_its_lag_grows(shell: Shell) -> None:
    shell.produce(numbers(5), "orders")
    shell.commit("billing", "orders", p0=3)
    shell.node.kill()
    shell.node.restart()
    shell.produce(numbers(5), "orders")
    described = shell("group", "describe", "billing", "--json").json
    assert (described["state"], described["lag"]) == ("empty", 7)


def test_what_was_deleted_before_it_was_read_is_remarked_on(shell: Shell) -> None:
    shell.produce(numbers(10), "orders")
    shell.commit("billing", "orders", p0=3)
    shell("topic", "delete-records", "orders", "--before", "6", "--yes")
    outcome = shell("group", "describe", "billing")
    assert "Unread records were deleted by retention: orders:0." in outcome.output
    assert outcome.output.splitlines()[1].startswith("4 records to read")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("group", "describe", "nothing"), "there is no group 'nothing'"),
        (("group", "delete", "nothing"), "there is no group 'nothing'"),
        (("group", "delete-offsets", "nothing", "--all-topics"), "there is no group 'nothing'"),
        (("group", "delete-offsets", "billing", "--topic", "nothing"), "nothing for nothing"),
        (
            ("group", "reset-offsets", "billing", "--topic", "nothing", "--to", "1"),
            "there is no topic 'nothing'",
        ),
        (
            ("group", "reset-offsets", "billing", "--topic", "orders:7", "--to", "1"),
            "no partition 7",
        ),
        (
            ("group", "reset-offsets", "billing", "--topic", "orders:1", "--to", "+1"),
            "nothing is committed for partition 1",
        ),
        (
            ("group", "reset-offsets", "nothing", "--all-topics", "--to", "1"),
            "group 'nothing' has committed nothing",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_refusal_is_one_line_and_code_1(
    shared_shell: Shell, arguments: tuple[str, ...], said: str
) -> None:
    shared_shell("topic", "create", "orders", "--partitions", "2")
    shared_shell.commit("billing", "orders", p0=0)
    outcome = shared_shell(*arguments)
    assert outcome.code == 1
    assert outcome.errors.startswith("error: ")
    assert outcome.errors.count("\n") == 1
    assert said in outcome.errors


def test_the_tab_key_knows_topics_and_groups(
    shell: Shell, tidelog: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("topic", "create", "orders")
    shell("topic", "create", "returns")
    shell.commit("billing", "orders", p0=0)
    tab = TabKey(monkeypatch, tidelog)
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", shell.node.bootstrap)
    assert tab("topic", "describe", "or") == ["orders"]
    assert "returns" in tab("consume", "")
    assert tab("group", "describe", "") == ["billing"]
    assert tab("consume", "orders", "--group", "b") == ["billing"]
    monkeypatch.delenv("TIDELOG_BOOTSTRAP")
    assert tab("topic", "delete", "--bootstrap", shell.node.bootstrap, "r") == ["returns"]

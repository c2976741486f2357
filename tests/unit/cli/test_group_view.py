"""A group's lag, and how a group is told, at 80 columns."""

from __future__ import annotations

import pytest

from tidelog.cli.group import State
from tidelog.cli.group_lag import PartitionLag, most_behind_s, total_lag
from tidelog.cli.group_view import as_document, headline, remarks, show_group
from tidelog.client.admin import Offsets
from tidelog.client.group_admin import Group, Member
from tidelog.model.ids import TopicPartition

APP = Member("app-1-uuid", "app-1", "/127.0.0.1", None, (TopicPartition("orders", 0),))
BILLING = Group("billing", "stable", "classic", "range", (APP,))
EMPTY = Group("billing", "empty", "classic")


def lag(
    committed: int | None,
    span: tuple[int, int] | None,
    *,
    partition: int = 0,
    owner: Member | None = None,
    behind_s: float | None = None,
    is_gone: bool = False,
) -> PartitionLag:
    place = TopicPartition("orders", partition)
    known = Offsets(*span) if span else None
    return PartitionLag(place, owner, committed, known, behind_s, is_gone)


@pytest.mark.parametrize(
    ("committed", "span", "expected"),
    [
        (5, (0, 20), 15),
        (20, (0, 20), 0),
        (5, (10, 20), 10),
        (25, (0, 20), 0),
        (None, (0, 20), None),
        (5, None, None),
    ],
)
def test_lag_counts_what_can_still_be_read(
    committed: int | None, span: tuple[int, int] | None, expected: int | None
) -> None:
    assert lag(committed, span).lag == expected


def test_totals_are_of_what_is_known() -> None:
    lags = [lag(5, (0, 20), behind_s=3.0), lag(None, (0, 20)), lag(0, (0, 1), behind_s=9.0)]
    assert total_lag(lags) == 16
    assert most_behind_s(lags) == 9.0
    assert most_behind_s([]) is None


def test_the_headline_says_it_all() -> None:
    said = headline(BILLING, [lag(5, (0, 20), behind_s=200.0)])
    assert said == (
        "billing: stable, 1 member, classic protocol (range)\n"
        "15 records to read, the oldest for 3 min 20 s"
    )
    assert headline(EMPTY, [lag(20, (0, 20))]).endswith(
        "no members, classic protocol\nnothing left to read"
    )
    assert headline(EMPTY, []) == "billing: empty, no members, classic protocol"


@pytest.mark.parametrize(
    ("lags", "said"),
    [
        ([], "committed nothing and owns nothing"),
        ([lag(25, (0, 20))], "Committed beyond the end: orders:0."),
        ([lag(5, (10, 20))], "deleted by retention: orders:0."),
        ([lag(5, None)], "Led by nobody, so not counted: orders:0."),
        ([lag(5, None, is_gone=True)], "No longer there: orders:0."),
        ([lag(None, (0, 20), partition=3)], "Nothing committed yet, so not counted: orders:3."),
    ],
)
def test_what_is_odd_is_remarked_on(lags: list[PartitionLag], said: str) -> None:
    assert said in " ".join(remarks(BILLING, lags))


def test_nothing_odd_is_nothing_said() -> None:
    assert remarks(BILLING, [lag(5, (0, 20))]) == []


def test_a_group_of_large_numbers_and_long_names_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    topic = "payments.eu-central.customer-orders-enriched"
    places = tuple(TopicPartition(topic, number) for number in range(0, 60, 2))
    member = Member("id", "a-consumer-with-a-long-client-id", "/10.20.30.40", "static-1", places)
    group = Group("billing", "stable", "classic", "cooperative-sticky", (member,))
    lags = [
        PartitionLag(place, member, 1_234_567_890, Offsets(0, 1_334_567_890), 123_456.0)
        for place in places
    ]
    show_group(group, lags)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("1,234,567,890" in line and "100,000,000" in line for line in lines)


def test_a_program_gets_all_of_it() -> None:
    document = as_document(BILLING, [lag(5, (0, 20), owner=APP, behind_s=3.5)])
    assert document["lag"] == 15
    assert document["behind_s"] == 3.5
    assert document["members"][0]["host"] == "127.0.0.1"
    assert document["members"][0]["partitions"] == [{"topic": "orders", "partition": 0}]
    assert document["partitions"] == [
        {
            "topic": "orders",
            "partition": 0,
            "member_id": "app-1-uuid",
            "committed_offset": 5,
            "start_offset": 0,
            "end_offset": 20,
            "lag": 15,
            "behind_s": 3.5,
        }
    ]


@pytest.mark.parametrize(
    ("state", "is_rebalancing"),
    [
        ("preparing rebalance", True),
        ("completing rebalance", True),
        ("rebalancing", True),
        ("stable", False),
        ("empty", False),
    ],
)
def test_all_kinds_of_rebalance_are_one_state_to_ask_for(state: str, is_rebalancing: bool) -> None:
    assert State.REBALANCING.has(state) is is_rebalancing
    assert State.STABLE.has(state) is (state == "stable")

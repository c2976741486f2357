"""What librdkafka is told, and what is refused before it is asked."""

from __future__ import annotations

import pytest

from tidelog.client import ClientError
from tidelog.client.inbox import Subscription


def test_at_least_once_leaves_committing_to_librdkafka_and_storing_to_us() -> None:
    options = Subscription(["orders"], group="g").options()
    assert options["enable_auto_commit"] is True
    assert options["enable_auto_offset_store"] is False
    assert options["auto_offset_reset"] == "earliest"
    assert options["partition_assignment_strategy"] == "cooperative-sticky"


def test_at_most_once_commits_itself() -> None:
    subscription = Subscription(["orders"], group="g", processing="at-most-once")
    assert subscription.commits_first
    assert subscription.options()["enable_auto_commit"] is False


def test_without_a_group_nothing_is_committed() -> None:
    subscription = Subscription(["orders"], processing="at-most-once")
    assert not subscription.commits_first
    assert subscription.options()["enable_auto_commit"] is False


def test_the_newer_protocol_names_no_assignor() -> None:
    options = Subscription(["orders"], group="g", protocol="consumer", instance_id="i").options()
    assert options["group_protocol"] == "consumer"
    assert options["group_instance_id"] == "i"
    assert "partition_assignment_strategy" not in options


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"processing": "exactly-once"},
            "processing must be 'at-least-once' or 'at-most-once', not 'exactly-once'",
        ),
        ({"start": "first"}, "start must be 'earliest' or 'latest', not 'first'"),
        ({"protocol": "new"}, "protocol must be 'classic' or 'consumer', not 'new'"),
    ],
)
def test_a_wrong_word_is_refused_with_the_right_ones(
    arguments: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ClientError, match=sentence):
        Subscription(["orders"], **arguments)  # type: ignore[arg-type]


def test_a_consumer_of_nothing_is_refused() -> None:
    with pytest.raises(ClientError, match="needs a topic"):
        Subscription([])

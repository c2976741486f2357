"""Who votes: the text people write, and what is wrong with it."""

from __future__ import annotations

import pytest

from tidelog.model.cluster_settings import parse_voters
from tidelog.model.ids import Endpoint, NodeId
from tidelog.model.setting import InvalidSetting


def test_voters_are_read_by_node_id() -> None:
    assert parse_voters("1@a:9092, 2@[::1]:9093,") == {
        NodeId(1): Endpoint("a", 9092),
        NodeId(2): Endpoint("::1", 9093),
    }
    assert parse_voters("") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:9092", "ID@HOST:PORT"),
        ("1@a", "HOST:PORT"),
        ("1@a:0", "HOST:PORT"),
        ("1@a:70000", "HOST:PORT"),
        ("x@a:1", "ID@HOST:PORT"),
        ("1@a:1,1@b:1", "named twice"),
    ],
)
def test_a_wrong_voter_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        parse_voters(text)

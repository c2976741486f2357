"""Who votes, and where ZooKeeper is: the text people write, and what is wrong with it."""

from __future__ import annotations

import pytest

from tidelog.model.cluster_settings import Ensemble, parse_ensemble, parse_voters
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


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("a:2181", (Endpoint("a", 2181),), ""),
        ("a", (Endpoint("a", 2181),), ""),
        ("a:1, b:2/some/path", (Endpoint("a", 1), Endpoint("b", 2)), "/some/path"),
        ("[::1]:2182,[::2]/", (Endpoint("::1", 2182), Endpoint("::2", 2181)), ""),
    ],
)
def test_an_ensemble_is_addresses_and_perhaps_a_path(
    text: str, servers: tuple[Endpoint, ...], chroot: str
) -> None:
    assert parse_ensemble(text) == Ensemble(servers, chroot)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "give zookeeper.connect=HOST:PORT"),
        ("/path", "give zookeeper.connect=HOST:PORT"),
        ("a:b", "HOST:PORT"),
        ("a:0/x", "HOST:PORT"),
        ("a:1//x", "names between its slashes"),
        ("a:1/x/../y", "names between its slashes"),
    ],
)
def test_a_wrong_ensemble_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        parse_ensemble(text)

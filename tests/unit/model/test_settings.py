"""The settings table: what it accepts, refuses, and how layers fall over each other."""

from __future__ import annotations

import pytest

from tidelog.model.settings import (
    SETTINGS,
    InvalidSetting,
    node_settings,
    parse_settings,
    topic_settings,
)


def test_every_row_has_a_name_a_sentence_and_a_default_that_it_would_accept() -> None:
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    for setting in SETTINGS:
        assert setting.doc.endswith(".")
        assert setting.parse(str(setting.default)) == setting.default


def test_every_row_reaches_its_typed_object() -> None:
    for setting in SETTINGS:
        typed = topic_settings() if setting.scope == "topic" else node_settings()
        assert getattr(typed, setting.name.replace(".", "_")) == setting.default


def test_later_layers_win() -> None:
    node = parse_settings({"segment.bytes": "2048", "flush.policy": "os"}, "node")
    topic = parse_settings({"segment.bytes": "4096"}, "topic")
    settings = topic_settings(node, topic)
    assert (settings.segment_bytes, settings.flush_policy) == (4096, "os")


@pytest.mark.parametrize(
    ("name", "text", "scope", "message"),
    [
        ("segment.bytes", "many", "topic", "must be a whole number"),
        ("segment.bytes", "1", "topic", "at least 1024"),
        ("segment.bytes", str(2**31), "topic", "at most"),
        ("flush.policy", "never", "topic", "one of ack, os"),
        ("auto.create.topics.enable", "perhaps", "node", "true or false"),
        ("num.partitions", "4", "topic", "unknown topic setting"),
        ("no.such.thing", "1", "node", "unknown node setting"),
    ],
)
def test_a_wrong_setting_is_refused_with_a_sentence(
    name: str, text: str, scope: str, message: str
) -> None:
    with pytest.raises(InvalidSetting, match=message):
        parse_settings({name: text}, "topic" if scope == "topic" else "node")

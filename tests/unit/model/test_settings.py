"""The settings table: what it accepts, refuses, and how layers fall over each other."""

from __future__ import annotations

import pytest

from tidelog.model.settings import (
    SETTINGS,
    InvalidSetting,
    node_settings,
    parse_settings,
    recorded_settings,
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
        if setting.scope == "group" or not setting.is_obeyed:
            continue
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
        ("retention.ms", "\uff11\uff12", "topic", "must be a whole number"),
        ("retention.ms", "1_000", "topic", "must be a whole number"),
        ("retention.ms", "", "topic", "must be a whole number"),
        ("retention.ms", "9" * 5000, "topic", "must be a whole number"),
        ("min.cleanable.dirty.ratio", "nan", "topic", "must be a number"),
        ("min.cleanable.dirty.ratio", "\uff10.5", "topic", "must be a number"),
        ("compression.gzip.level", "0", "topic", "can't be '0'"),
        ("compression.lz4.level", "18", "topic", "at most 17"),
        ("remote.storage.enable", "true", "topic", "no tiered storage"),
        ("follower.replication.throttled.replicas", "\uff11:\uff12", "topic", "PARTITION:NODE"),
        ("leader.replication.throttled.replicas", "*,0:1", "topic", "alone"),
        ("group.consumer.assignors", "", "node", "some of"),
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


def test_what_kafka_trims_around_a_value_is_trimmed() -> None:
    given = {
        "retention.ms": " +12\t",
        "preallocate": " TRUE",
        "cleanup.policy": " compact , delete ",
    }
    parsed = parse_settings(given, "topic")
    assert parsed == {"retention.ms": 12, "preallocate": True, "cleanup.policy": "compact,delete"}
    with pytest.raises(InvalidSetting):
        parse_settings({"retention.ms": "12\u2003"}, "topic")


def test_numbers_that_earlier_releases_accepted_are_still_read_from_the_metadata_log() -> None:
    mixed = ("leader.replication.throttled.replicas", "*,0:1")
    assert recorded_settings(dict([mixed]), "topic") == dict([mixed])
    recorded = {"retention.ms": "1_000", "min.cleanable.dirty.ratio": "0.2_5"}
    assert recorded_settings(recorded, "topic") == {
        "retention.ms": 1000,
        "min.cleanable.dirty.ratio": 0.25,
    }


def test_a_topic_without_a_cleanup_policy_is_cleaned_in_no_way() -> None:
    settings = topic_settings(parse_settings({"cleanup.policy": ""}, "topic"))
    kinds = (settings.is_deleted, settings.is_compacted, settings.is_consumed)
    assert not any(kinds)

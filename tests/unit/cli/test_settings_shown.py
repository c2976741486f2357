"""Settings explained: on the page, in the terminal, and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.command_line import CommandLine

from tidelog.cli.setting_text import bounds, default_text, meaning, source_word
from tidelog.cli.settings_page import markdown
from tidelog.model.settings import SETTINGS, Setting, setting_named

PAGE = Path(__file__).resolve().parents[3] / "docs" / "settings.md"


@pytest.mark.parametrize(
    ("name", "value", "means"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("retention.ms", "5400000", "1 h 30 min"),
        ("retention.ms", "-1", "no limit"),
        ("retention.ms", "500", ""),
        ("local.retention.ms", "-2", ""),
        ("compression.gzip.level", "-1", ""),
        ("retention.bytes", "-1", "no limit"),
        ("segment.bytes", "1073741824", "1 GiB"),
        ("segment.bytes", "1500000", "1.4 MiB"),
        ("segment.bytes", "1000", ""),
        ("max.compaction.lag.ms", "9223372036854775807", "no limit"),
        ("group.max.size", "2147483647", "no limit"),
        ("offsets.retention.minutes", "90", "1 h 30 min"),
        ("num.partitions", "4", ""),
        ("cleanup.policy", "compact", ""),
        ("retention.ms", "nonsense", ""),
        ("retention.ms", None, ""),
        ("some.other.brokers.setting", "5", ""),
    ],
)
def test_a_number_is_put_into_words(name: str, value: str | None, means: str) -> None:
    assert meaning(name, value) == means


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("flush.policy", "ack, os"),
        ("cleanup.policy", "some of delete, compact, consumed"),
        ("auto.create.topics.enable", "true, false"),
        ("retention.ms", "at least -1"),
        ("min.cleanable.dirty.ratio", "0 to 1"),
    ],
)
def test_what_may_be_set_is_said_in_a_few_words(name: str, said: str) -> None:
    assert bounds(setting_named(name, "node")) == said


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_can_be_set_as_it_is_written(setting: Setting) -> None:
    row = setting_named(setting.name, setting.scope)
    assert row.parse(default_text(row)) == row.default


def test_sources_are_the_topic_the_node_and_the_default() -> None:
    words = ("dynamic topic config", "static broker config", "default config")
    assert [source_word(word) for word in words] == ["topic", "node", "default"]
    assert source_word("group config") == "group"
    assert source_word("client metrics config") == "client metrics config"


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == markdown(), "docs/settings.md is out of date: run `make docs`"


def test_the_command_prints_the_page(tidelog: CommandLine) -> None:
    assert tidelog("config", "list", "--markdown").output == markdown()


def test_the_list_explains_every_setting_and_fits_80_columns(tidelog: CommandLine) -> None:
    outcome = tidelog("config", "list")
    assert outcome.code == 0
    assert [row.name for row in SETTINGS if f"\n{row.name} = " not in outcome.output] == []
    assert max(map(len, outcome.output.splitlines())) <= 80


def test_the_list_can_be_narrowed(tidelog: CommandLine) -> None:
    rows = tidelog("config", "list", "retention", "--scope", "topic", "--json").json
    assert [row["name"] for row in rows] == [
        "retention.ms",
        "retention.bytes",
        "delete.retention.ms",
        "local.retention.ms",
        "local.retention.bytes",
    ]
    nodes = tidelog("config", "list", "--scope", "node").output
    assert "num.partitions" in nodes
    assert "segment.bytes" not in nodes


def test_a_program_gets_the_whole_row(tidelog: CommandLine) -> None:
    (row,) = tidelog("config", "list", "flush.policy", "--json").json
    assert row["choices"] == ["ack", "os"]
    assert (row["scope"], row["type"], row["default"], row["live"]) == (
        "topic",
        "string",
        "ack",
        True,
    )

"""A node that has joined a cluster finds its place again by its directory alone."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import CommandLine

from tidelog.cli.kept_config import KeptConfig
from tidelog.cli.serve import parse_options

KEPT = KeptConfig(
    4,
    "127.0.0.1:19095",
    "log4.example",
    {"controller.quorum.bootstrap.servers": "a:1,b:2", "broker.rack": 'the "back" room'},
)


def test_a_plain_serve_goes_by_what_the_directory_says(tmp_path: Path) -> None:
    KEPT.write(tmp_path / "data")
    options = parse_options(["--data-dir", str(tmp_path / "data")])
    assert (options.node_id, options.host, options.port) == (4, "127.0.0.1", 19095)
    assert options.advertised == "log4.example"
    assert options.settings == dict(KEPT.settings)


def test_the_command_line_and_the_file_win_over_the_directory(tmp_path: Path) -> None:
    KEPT.write(tmp_path)
    file = tmp_path / "other.toml"
    file.write_text('listen = "127.0.0.1:9092"\n[settings]\nbroker.rack = "b"\n')
    options = parse_options(
        ["--data-dir", str(tmp_path), "--config", str(file), "--set", "num.partitions=2"]
    )
    assert (options.node_id, options.port) == (4, 9092)
    assert options.settings["broker.rack"] == "b"
    assert options.settings["num.partitions"] == 2


def test_a_directory_that_holds_a_node_is_not_joined_with(
    tidelog: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "metadata").mkdir()
    told = tidelog("cluster", "join", "--data-dir", str(tmp_path), "--bootstrap", "127.0.0.1:1")
    assert told.code == 1
    assert "holds a node already" in told.errors
    assert len(told.errors.splitlines()) == 1

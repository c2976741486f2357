"""The command line wins over the file, the file over the defaults; mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.cli.serve import UsageError, parse_options
from tidelog.model.settings import InvalidSetting


def config(directory: Path, text: str) -> list[str]:
    path = directory / "tidelog.toml"
    path.write_text(text)
    return ["--config", str(path)]


def test_the_defaults_listen_on_loopback_only() -> None:
    options = parse_options([])
    assert (options.host, options.port, options.node_id) == ("127.0.0.1", 9092, 1)
    assert options.data_dir == Path("tidelog-data")
    assert options.settings == {}
    assert options.advertised is None


def test_settings_are_given_with_their_types() -> None:
    options = parse_options(["--set", "num.partitions=4", "--set", "flush.policy=os"])
    assert options.settings == {"num.partitions": 4, "flush.policy": "os"}


def test_the_file_wins_over_the_defaults_and_the_command_line_over_the_file(
    tmp_path: Path,
) -> None:
    text = """
        data-dir = "from-file"
        listen = "127.0.0.2:1000"
        node-id = 7
        [settings]
        num.partitions = 4
        auto.create.topics.enable = false
        "max.connections" = 10
    """
    arguments = config(tmp_path, text)
    options = parse_options([*arguments, "--node-id", "8", "--set", "num.partitions=5"])
    assert options.data_dir == Path("from-file")
    assert (options.host, options.port, options.node_id) == ("127.0.0.2", 1000, 8)
    assert options.settings == {
        "num.partitions": 5,
        "auto.create.topics.enable": False,
        "max.connections": 10,
    }


def test_an_ipv6_address_may_stand_in_brackets() -> None:
    options = parse_options(["--listen", "[::1]:0"])
    assert (options.host, options.port) == ("::1", 0)


def test_a_node_that_listens_everywhere_sends_clients_to_a_host_they_can_reach() -> None:
    assert parse_options(["--listen", "0.0.0.0:9092"]).advertised not in (None, "0.0.0.0")
    told = parse_options(["--listen", "0.0.0.0:9092", "--advertise", "log.example.org"])
    assert told.advertised == "log.example.org"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "9092"], "--listen must be HOST:PORT"),
        (["--listen", ":9092"], "--listen must be HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "--listen must be HOST:PORT"),
        (["--node-id", "-1"], "--node-id must be a whole number"),
        (["--http", "127.0.0.1:8080"], "--http is not in this release"),
        (["--set", "nonsense"], "--set must be NAME=VALUE"),
        (["--config", "no-such-file.toml"], "cannot read no-such-file.toml"),
        (["somewhere"], "unrecognized arguments: somewhere"),
    ],
)
def test_a_wrong_option_is_named(arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_options(arguments)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listn = '127.0.0.1:1'", "unknown key 'listn'"),
        ("settings = 3", "settings must be a table"),
        ("= 3", "is not TOML"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_options(config(tmp_path, text))
    assert said in str(refused.value)
    assert "tidelog.toml" in str(refused.value)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"no\.such\.setting"):
        parse_options(["--set", "no.such.setting=1"])


def test_http_off_is_accepted() -> None:
    assert parse_options(["--http", "off"]).port == 9092

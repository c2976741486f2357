"""Every command explains itself, with an example, in 80 columns."""

from __future__ import annotations

import pytest
from tests.support.command_line import CommandLine

from tidelog import __version__
from tidelog.cli.app import NOUNS

COMMANDS = [
    *((noun.name,) for noun in NOUNS),
    *(("topic", verb) for verb in ("create", "list", "describe", "alter", "delete")),
    ("topic", "delete-records"),
    *(("group", verb) for verb in ("list", "describe", "reset-offsets", "delete-offsets")),
    ("group", "delete"),
    *(("cluster", verb) for verb in ("up", "status", "join", "reassign", "drain", "elect")),
    *(("config", verb) for verb in ("list", "describe", "set", "unset")),
    *(("spark", verb) for verb in ("sql", "archive", "replay", "table", "optimize", "inspect")),
    ("spark", "pipeline"),
    *(("spark", "pipeline", verb) for verb in ("init", "run")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_has_an_example_and_fits_80_columns(
    tidelog: CommandLine, command: tuple[str, ...]
) -> None:
    shown = tidelog(*command, "--help")
    assert shown.code == 0
    assert "example" in shown.output.lower()
    assert f"tidelog {' '.join(command)}" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80


def test_the_list_of_commands_names_them_all(tidelog: CommandLine) -> None:
    shown = tidelog("--help")
    assert shown.code == 0
    assert [noun.name for noun in NOUNS if noun.name not in shown.output] == []


def test_without_a_command_the_list_is_shown_and_the_exit_code_is_2(tidelog: CommandLine) -> None:
    shown = tidelog()
    assert shown.code == 2
    assert "serve" in shown.output


def test_the_version_is_one_line(tidelog: CommandLine) -> None:
    assert tidelog("--version").output == f"tidelog {__version__}\n"


def test_the_installed_parts_can_be_read_by_a_program(tidelog: CommandLine) -> None:
    assert tidelog("version", "--json").json["tidelog"] == __version__


@pytest.mark.interpreted
def test_a_clone_runs_its_sources(tidelog: CommandLine) -> None:
    assert tidelog("version", "--json").json["build"] == "pure"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_help_speaks_python(tidelog: CommandLine, command: tuple[str, ...]) -> None:
    shown = tidelog(*command, "--help").output
    assert [word for word in ("<bool>", "<str>", "<list", "TEXT...") if word in shown] == []

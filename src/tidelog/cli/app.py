"""All commands but `serve`: the list of nouns, loaded one by one, and how failures end.

The list is data, so that `tidelog --help` imports none of them and each costs only its own
imports. A noun is a module with `app: typer.Typer`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from tidelog import __version__
from tidelog.cli.output import report_error

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The parent of every mistake on a command line; typer exports only this child of it."""


class Noun(NamedTuple):
    """A row of `tidelog --help`."""

    name: str
    summary: str
    panel: str


NOUNS = (
    Noun("serve", "Start a node.", "Run"),
    Noun("cluster", "Run a cluster of nodes: start, join, move, drain, look.", "Run"),
    Noun("demo", "See it work: a kill -9, a failover, a pipeline on Spark.", "Run"),
    Noun("topic", "Create, list, describe, alter and delete topics.", "Use"),
    Noun("produce", "Send records from lines, a file or a generator.", "Use"),
    Noun("consume", "Read records from anywhere in a topic, or as a group.", "Use"),
    Noun("group", "See who reads what and how far behind; move offsets.", "Use"),
    Noun("spark", "Query, archive, replay and transform topics on Spark.", "Use"),
    Noun("config", "Explain, show and change settings.", "Use"),
    Noun("dump", "Look into log files, with no broker running.", "Look inside"),
    Noun("bench", "Measure throughput and latency on this machine.", "Look inside"),
    Noun("sim", "Run simulated nodes with faults, by seed.", "Look inside"),
    Noun("completion", "Let the Tab key complete commands in your shell.", "Look inside"),
    Noun("version", "Say what is installed.", "Look inside"),
)


class _Nouns(TyperGroup):
    """Lists rows; imports the module of a noun only when that noun is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for noun in NOUNS:
            row = TyperCommand(noun.name, help=noun.summary, rich_help_panel=noun.panel)
            self.add_command(row, noun.name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _row, rest = super().resolve_command(ctx, args)
        return name, _load(str(name)), rest


def _load(name: str) -> Any:
    """`serve` comes here only to be completed: it runs without typer (`main.py`)."""
    module = import_module(f"tidelog.cli.{'serve_names' if name == 'serve' else name}")
    command = typer.main.get_command(module.app)
    command.name = name
    _tidy_help(command)
    return command


def _tidy_help(command: Any) -> None:
    """Leave out of `--help` what helps nobody: a second way to install completion, that a flag
    has no value, and of which Python type an argument is."""
    _tidy_help_option(command)
    command.params = [
        parameter
        for parameter in command.params
        if parameter.name not in ("install_completion", "show_completion")
    ]
    for parameter in command.params:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = _nothing
    for child in getattr(command, "commands", {}).values():
        _tidy_help(child)


def _nothing(ctx: Any) -> None:
    """Stands where a type would be shown."""


def _tidy_help_option(command: Any) -> None:
    """typer makes `--help` itself, anew for each command."""
    made = command.get_help_option

    def tidied(ctx: Any) -> Any:
        option = made(ctx)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = tidied


app = typer.Typer(
    cls=_Nouns,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: `tidelog serve` in one terminal, then in another "
    "`echo hello | tidelog produce greetings` and "
    "`tidelog consume greetings`. Each command has its own --help.",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"tidelog {__version__}")
        raise typer.Exit


@app.callback(no_args_is_help=True)
def tidelog(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, metavar="", help="Say the version."
        ),
    ] = False,
) -> None:
    """A persistent event log and message queue that speaks the Kafka wire protocol."""


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code. What is raised here is said in one line."""
    command = typer.main.get_command(app)
    _tidy_help(command)
    try:
        code = command.main(args=arguments, prog_name="tidelog", standalone_mode=False)
    except _UsageError as error:
        if message := _usage_message(error):
            report_error(message)
        return 2
    except _expected_failures() as error:
        report_error(str(error))
        return 1
    except BrokenPipeError:
        raise
    except OSError as error:
        report_error(f"{error.filename or 'input/output'}: {error.strerror or error}")
        return 1
    except typer.Abort:
        return 130
    return code if isinstance(code, int) else 0


def _expected_failures() -> tuple[type[Exception], ...]:
    """Asked for only when something has failed: `--help` need not import librdkafka for it."""
    from tidelog.cli.failure import CommandFailed
    from tidelog.client.errors import ClientError
    from tidelog.spark.errors import PipelineError

    return (CommandFailed, ClientError, PipelineError)


def _usage_message(error: Any) -> str:
    """One line; none where typer has just printed the help instead."""
    context = error.ctx
    path = context.command_path if context is not None else "tidelog"
    message = error.format_message().rstrip(".").removeprefix("Invalid value: ")
    if not message:
        return ""
    return f"{message[:1].lower()}{message[1:]} (see `{path} --help`)"

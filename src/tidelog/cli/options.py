"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

from typing import Annotated, TypeVar

import typer

from tidelog.cli.names import group_names, topic_names

Named = TypeVar("Named", str, list[str], None)


def named(value: Named) -> Named:
    """A name, or several, of which none is empty: a shell's unset variable is one."""
    if value == "" or (isinstance(value, list) and "" in value):
        raise typer.BadParameter("must not be empty")
    return value


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="TIDELOG_BOOTSTRAP",
        help="A node of the cluster.",
        show_envvar=True,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
TopicName = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", help="The topic's name.", autocompletion=topic_names, callback=named
    ),
]
GroupName = Annotated[
    str,
    typer.Argument(
        metavar="GROUP", help="The group's name.", autocompletion=group_names, callback=named
    ),
]
Carry = Annotated[
    bool, typer.Option("--yes", "-y", help="Do it. Without, only what would happen is shown.")
]


def pairs(texts: list[str], *, option: str) -> dict[str, str]:
    """`NAME=VALUE` of a repeated option."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"must be NAME=VALUE: not {text!r}", param_hint=option)
        found[name] = value
    return found

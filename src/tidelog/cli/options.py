"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.names import group_names, topic_names

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
    typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=topic_names),
]
GroupName = Annotated[
    str,
    typer.Argument(metavar="GROUP", help="The group's name.", autocompletion=group_names),
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

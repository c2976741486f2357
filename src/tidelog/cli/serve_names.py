"""The options of `serve`, for the Tab key only: what runs is `serve.py`, without typer."""

from __future__ import annotations

import argparse
import inspect
from typing import Annotated, Any

import typer

from tidelog.cli.names import setting_pairs
from tidelog.cli.serve import parser


def _option(action: argparse.Action) -> inspect.Parameter:
    names = setting_pairs if action.dest == "set" else None
    option = typer.Option(*action.option_strings, help=action.help, autocompletion=names)
    return inspect.Parameter(
        action.dest,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )


def _serve(**_values: Any) -> None:
    """Start a node."""


_OPTIONS = [_option(action) for action in parser()._actions if action.dest != "help"]
_serve.__signature__ = inspect.Signature(_OPTIONS)  # type: ignore[attr-defined]
_serve.__annotations__ = {option.name: option.annotation for option in _OPTIONS}

app = typer.Typer()
app.command()(_serve)

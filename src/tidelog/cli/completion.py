"""`tidelog completion bash|zsh|fish`: the script that makes the Tab key work.

The script asks `tidelog` itself, by an environment variable, what may come next; so it knows every
command and option there is, and the names of topics and groups if a broker answers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

PROGRAM = "tidelog"
VARIABLE = "_TIDELOG_COMPLETE"

app = typer.Typer(rich_markup_mode="markdown")


class Shell(StrEnum):
    """Those a script is known for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command(
    epilog='Example, in `~/.bashrc`: `eval "$(tidelog completion bash)"`\n\n'
    'In `~/.zshrc`, after compinit: `eval "$(tidelog completion zsh)"`\n\n'
    "fish: `tidelog completion fish > ~/.config/fish/completions/tidelog.fish`"
)
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell you type in.")],
) -> None:
    """Print the script that lets the Tab key complete commands, options, topics and groups."""
    print(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))

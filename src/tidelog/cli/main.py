"""The entry point: `serve` at once, all else through `app.py`.

Importing typer and rich costs more than starting the broker; `serve` must not pay it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

BROKEN_PIPE = 1
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_standard_output()
        return BROKEN_PIPE
    return code


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["serve"]:
        from tidelog.cli.serve import run as run_serve

        return run_serve(arguments[1:])
    from tidelog.cli.app import run as run_app

    return run_app(arguments)


def _forget_standard_output() -> None:
    """Whoever read our output has left; the interpreter must not complain of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

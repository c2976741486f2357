"""`tidelog version`: what is installed, for a bug report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

import typer

from tidelog import __version__
from tidelog.cli.options import AsJson
from tidelog.cli.output import add_rows, emit_json, people, table
from tidelog.model.compiled import build

app = typer.Typer(rich_markup_mode="markdown")

_PARTS = ("confluent-kafka", "crc32c", "cramjam", "uvloop")


@app.command(epilog="Example: `tidelog version --json`")
def version(as_json: AsJson = False) -> None:
    """Say what is installed."""
    versions = {"tidelog": __version__, "build": build(), "python": platform.python_version()}
    versions.update({name: _version_of(name) for name in _PARTS})
    if as_json:
        emit_json(versions)
        return
    people().print(add_rows(table("Part", "Version"), versions.items()))


def _version_of(name: str) -> str:
    try:
        return installed_version(name)
    except PackageNotFoundError:
        return "not installed"

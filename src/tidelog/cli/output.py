"""How the commands speak: tables for people, JSON for programs, errors in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.table import Table


def people() -> Console:
    """Standard output, for tables. No markup: a topic or a key may contain brackets."""
    return Console(highlight=False, markup=False)


def aside() -> Console:
    """Standard error, for progress and remarks that must not mix with data."""
    return Console(stderr=True, highlight=False, markup=False)


def report_error(message: str) -> None:
    """The one line a failure gets."""
    print(f"error: {message}", file=sys.stderr)


def emit_json(value: Any) -> None:
    """One document on standard output."""
    print(json.dumps(value, indent=2))


def table(*columns: str) -> Table:
    """A table in the house style. `#Name` holds numbers, `~Name` is folded where room is scarce."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        made.add_column(
            column.lstrip("#~"),
            justify="right" if column.startswith("#") else "left",
            no_wrap=not column.startswith("~"),
            overflow="fold",
        )
    return made


def add_rows(made: Table, rows: Iterable[Iterable[object]]) -> Table:
    for row in rows:
        made.add_row(*(cell if isinstance(cell, str) else shown(cell) for cell in row))
    return made


def shown(cell: object) -> str:
    """A cell as people write it: thousands are separated, nothing is a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)


def progress(*, is_counted: bool = True, console: Console | None = None) -> Progress:
    """A progress bar; silent where there is no terminal, gone when done.

    On standard error, unless `console` is where the text around it goes as well. Without a count
    it only counts up, and not while somebody types.
    """
    counted = (
        (BarColumn(), MofNCompleteColumn()) if is_counted else (TextColumn("{task.completed:,}"),)
    )
    console = console or aside()
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *counted,
        Elapsed(),
        console=console,
        transient=True,
        disable=not console.is_terminal or (not is_counted and sys.stdin.isatty()),
    )


def size_text(size: float) -> str:
    """Bytes for people: 1.5 MB is 1,500,000."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def time_text(timestamp_ms: int) -> str:
    """A record's timestamp in local time; -1 is none."""
    if timestamp_ms < 0:
        return "-"
    moment = datetime.fromtimestamp(timestamp_ms / 1000).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def duration_text(seconds: float) -> str:
    """A length of time for people, in its two largest units: 0.4 s, 12 s, 3 min 20 s, 2 d 4 h."""
    if seconds < 10:
        tenths = f"{seconds:.1f}".removesuffix(".0")
        return f"{tenths} s"
    whole = round(seconds)
    parts: list[str] = []
    for name, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

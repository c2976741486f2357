"""How the demo speaks: what happens, with the seconds since the beginning; then a table."""

from __future__ import annotations

import time

from rich.table import Table

from tidelog.cli.output import people


class Story:
    """Told from one beginning to the end, over all parts."""

    def __init__(self) -> None:
        self.console = people()
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def tell(self, text: str) -> None:
        self.console.print(f"{self.seconds:6.2f} s  {text}", soft_wrap=True)

    def show(self, table: Table) -> None:
        self.console.print()
        self.console.print(table)
        self.console.print()

    def conclude(self, text: str) -> None:
        self.console.print(text, style="bold green", soft_wrap=True)


def money(cents: int) -> str:
    return f"{cents / 100:,.2f}"

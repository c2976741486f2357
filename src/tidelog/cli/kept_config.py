"""The file `tidelog.toml` in a data directory: what a plain `tidelog serve` of it goes by."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.cli.serve import KEPT_CONFIG

_HEAD = """\
# Written by `tidelog cluster join`; `tidelog serve` reads it, and the command line wins over it.
"""


@dataclass(frozen=True, slots=True)
class KeptConfig:
    """The place of a node that has joined a cluster."""

    node_id: int
    listen: str
    advertise: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        lines = [_HEAD + f"node-id = {self.node_id}", f"listen = {_quoted(self.listen)}"]
        if self.advertise is not None:
            lines.append(f"advertise = {_quoted(self.advertise)}")
        lines += ["", "[settings]"]
        lines += [f"{_quoted(name)} = {_quoted(value)}" for name, value in self.settings.items()]
        return "\n".join(lines) + "\n"

    def write(self, data_dir: Path) -> None:
        """Whole or not at all."""
        data_dir.mkdir(parents=True, exist_ok=True)
        temporary = data_dir / f"{KEPT_CONFIG}.tmp"
        with temporary.open("w") as file:
            file.write(self.text())
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(data_dir / KEPT_CONFIG)
        directory = os.open(data_dir, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


def _quoted(text: str) -> str:
    """JSON's strings are TOML's, too."""
    return json.dumps(text)

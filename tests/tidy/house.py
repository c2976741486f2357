"""The source tree as the house rules see it: files, their text, their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tidelog"

MACHINE_ROOMS = (
    "model",
    "wire",
    "log",
    "metadata",
    "controller",
    "groups",
    "partition",
    "quorum",
    "zookeeper",
    "broker",
    "sim",
)
"""Where everything is deterministic: no clock, no luck, no I/O."""

TEXT_SUFFIXES = (".py", ".md", ".toml", ".txt", ".sh", ".cfg", ".yml", ".yaml", ".json")
TEXT_FILES = ("Makefile", ".ci/run")


@dataclass(frozen=True)
class Module:
    """One Python file."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """For messages: the path from the project's root."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def room(self) -> str:
        """The first directory below `src/tidelog`; empty for a module at the top."""
        parts = self.path.relative_to(PACKAGE).parts
        return parts[0] if len(parts) > 1 else ""

    def at(self, node: ast.AST) -> str:
        """Where `node` stands, as an editor can open it."""
        return f"{self.name}:{getattr(node, 'lineno', 1)}"


@cache
def sources() -> tuple[Module, ...]:
    """All modules of the product."""
    return tuple(_modules(PACKAGE))


@cache
def written_tests() -> tuple[Module, ...]:
    """All modules below `tests`."""
    return tuple(_modules(ROOT / "tests"))


def machines() -> list[Module]:
    """The modules of the machine rooms."""
    return [module for module in sources() if module.room in MACHINE_ROOMS]


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of every file people wrote."""
    for module in (*sources(), *written_tests()):
        yield module.name, module.text
    others = [ROOT / name for name in TEXT_FILES]
    others += [path for path in ROOT.iterdir() if path.suffix in TEXT_SUFFIXES]
    for directory in ("docs", "scripts", "tests"):
        others += [path for path in (ROOT / directory).rglob("*") if path.is_file()]
    for path in sorted(others):
        if path.suffix in (*TEXT_SUFFIXES, "") and path.suffix != ".py":
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def _modules(directory: Path) -> Iterator[Module]:
    for path in sorted(directory.rglob("*.py")):
        text = path.read_text()
        yield Module(path, text, ast.parse(text))

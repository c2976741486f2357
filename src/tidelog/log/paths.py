"""The names of a partition's files: Kafka's, and two of our own (`flushed`, `*.torn`)."""

from __future__ import annotations

import re

LOG = "log"
INDEX = "index"
TIME_INDEX = "timeindex"
SNAPSHOT = "snapshot"
TORN = "torn"
EPOCHS = "leader-epoch-checkpoint"
FLUSHED = "flushed"
TEMPORARY_SUFFIX = ".tmp"

_NAMED_BY_OFFSET = re.compile(r"(\d{20})\.([a-z]+)")


def offset_path(directory: str, offset: int, kind: str) -> str:
    """`offset` as Kafka writes it in file names: 20 digits."""
    return f"{directory}/{offset:020d}.{kind}"


def offsets_of(names: list[str], kind: str) -> list[int]:
    """The offsets in those of `names` that are files of this kind, ascending."""
    matches = (_NAMED_BY_OFFSET.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in matches if match and match[2] == kind)


def ancestors(directory: str) -> list[str]:
    """The directory and all above it, up to the data directory: those whose entries must be synced
    for the directory to be found again."""
    parts = directory.split("/")
    return ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]

"""The names of a partition's files: Kafka's, and a few of our own (`flushed`, `cleaned`, `*.torn`,
`*.swap`)."""

from __future__ import annotations

import re

LOG = "log"
INDEX = "index"
TIME_INDEX = "timeindex"
SNAPSHOT = "snapshot"
TORN = "torn"
SWAP = "swap"
EPOCHS = "leader-epoch-checkpoint"
FLUSHED = "flushed"
CLEANED = "cleaned"
ROOM_PROBE = "room-probe"
CLEANED_SUFFIX = ".cleaned"
TEMPORARY_SUFFIX = ".tmp"

_NAMED_BY_OFFSET = re.compile(r"(\d{20})\.([a-z]+)")
_SWAP = re.compile(rf"(\d{{20}})-(\d{{20}})\.{SWAP}")


def offset_path(directory: str, offset: int, kind: str) -> str:
    """`offset` as Kafka writes it in file names: 20 digits."""
    return f"{directory}/{offset:020d}.{kind}"


def offsets_of(names: list[str], kind: str) -> list[int]:
    """The offsets in those of `names` that are files of this kind, ascending."""
    matches = (_NAMED_BY_OFFSET.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in matches if match and match[2] == kind)


def swap_path(directory: str, base_offset: int, end_offset: int) -> str:
    """A finished segment that is to take the place of all between the two offsets."""
    return f"{directory}/{base_offset:020d}-{end_offset:020d}.{SWAP}"


def swaps_of(names: list[str]) -> list[tuple[int, int]]:
    """The two offsets in each of `names` that is one of these."""
    matches = (_SWAP.fullmatch(name) for name in names)
    return [(int(match[1]), int(match[2])) for match in matches if match]


def ancestors(directory: str) -> list[str]:
    """The directory and all above it, up to the data directory: those whose entries must be synced
    for the directory to be found again."""
    parts = directory.split("/")
    return ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]

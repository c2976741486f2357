"""What a node holds at a moment, as the operating system tells, and whether it grows.

All of these must be flat under a steady load: open files, those of them whose names are gone,
threads, memory, and room on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import median

from tidelog.bench.proc import rss_bytes

_BLOCK_BYTES = 512
_DELETED = " (deleted)"
_MB = 1_000_000
FEWEST = 8
"""With fewer samples a quarter of them says nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Of all nodes together. `disk_bytes` counts what `df` counts: deleted files that are still
    open, too."""

    at_s: float
    descriptors: int
    deleted_files: int
    threads: int
    rss_bytes: int
    disk_bytes: int


def take(pids: list[int], data_dir: Path, at_s: float) -> Sample:
    """Now, of these processes and the files below `data_dir`."""
    descriptors = deleted = threads = memory = 0
    disk = sum(map(_allocated, _all_below(data_dir)))
    for pid in pids:
        proc = Path(f"/proc/{pid}")
        threads += len([*(proc / "task").iterdir()])
        memory += rss_bytes(pid)
        for link in (proc / "fd").iterdir():
            descriptors += 1
            if _leads_to(link).endswith(_DELETED):
                deleted += 1
                disk += _allocated(link)
    return Sample(at_s, descriptors, deleted, threads, memory, disk)


def _all_below(folder: Path) -> Iterator[Path]:
    """All files and folders: some may go while they are walked."""
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(at, name)


def _leads_to(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # closed meanwhile
        return ""


def _allocated(path: Path) -> int:
    try:
        return path.stat().st_blocks * _BLOCK_BYTES
    except FileNotFoundError:  # deleted or closed meanwhile
        return 0


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much more may be there in the last quarter than in the second, at the median."""

    share: float
    slack: int


TOLERANCES = {
    "descriptors": Tolerance(0.15, 20),
    "deleted_files": Tolerance(0.15, 4),
    "threads": Tolerance(0.0, 4),
    "rss_bytes": Tolerance(0.15, 8 * _MB),
    "disk_bytes": Tolerance(0.25, 8 * _MB),
}
"""The slack is for what comes and goes: connections, segments that wait for the next check, and an
allocator that keeps what it has had once."""


def growth(samples: list[Sample]) -> list[str]:
    """What is not flat, a sentence each: the medians of the second and of the last quarter."""
    if len(samples) < FEWEST:
        return [f"there are {len(samples)} samples, and {FEWEST} are needed to tell"]
    found: list[str] = []
    quarter = len(samples) // 4
    for name, tolerance in TOLERANCES.items():
        values = [getattr(sample, name) for sample in samples]
        before, after = median(values[quarter : 2 * quarter]), median(values[-quarter:])
        if after > before * (1 + tolerance.share) + tolerance.slack:
            found.append(f"{name} grow from {before:,.0f} to {after:,.0f} between the quarters")
    return found


def table(samples: list[Sample]) -> str:
    """The first sample, the quartiles and the last, in 80 columns."""
    last = len(samples) - 1
    chosen = [samples[last * part // 4] for part in range(5)]
    names = ["seconds", "descriptors", "deleted", "threads", "RSS MB", "disk MB"]
    assert len(names) == len(fields(Sample))
    lines = ["".join(f"{name:>13}" for name in names)]
    for sample in chosen:
        at_s, descriptors, deleted, threads, memory, disk = astuple(sample)
        cells = [
            f"{at_s:.0f}",
            *(str(count) for count in (descriptors, deleted, threads)),
            *(f"{size / _MB:.1f}" for size in (memory, disk)),
        ]
        lines.append("".join(f"{cell:>13}" for cell in cells))
    return "\n".join(lines)

"""Files that a process has open although they were deleted: their room is not free."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def deleted_but_open(below: Path, *, process: int | None = None) -> list[str]:
    """The paths that they had, below a directory; of this process, or of another."""
    descriptors = f"/proc/{process or 'self'}/fd"
    found = []
    for entry in os.listdir(descriptors):
        with suppress(OSError):  # it was closed meanwhile
            found.append(os.readlink(f"{descriptors}/{entry}"))
    return [path for path in found if path.endswith("(deleted)") and path.startswith(str(below))]

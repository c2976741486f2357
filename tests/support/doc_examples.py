"""The Python examples of a document, for tests to run: a page that lies is a failed test."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"

_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page: str) -> list[str]:
    """What stands between ```` ```python ```` and the next fence, in order."""
    return _EXAMPLE.findall((DOCS / page).read_text())

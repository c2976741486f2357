"""What the compiled build has to know of a class. In the pure build it means nothing.

An optional wheel has some modules compiled (docs/decisions/0029-an-optional-compiled-build.md). A
compiled class has no interpreted subclasses unless it says that it allows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:
    Kind = TypeVar("Kind", bound=type)

    def mypyc_attr(**attributes: bool) -> Callable[[Kind], Kind]:
        """The compiler reads it in the source; nobody calls it for what it does."""
        return lambda kind: kind

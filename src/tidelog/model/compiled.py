"""Two builds of one source: which of them this is, and what the compiled one must know of a class.

An optional wheel has some modules compiled (docs/decisions/0029-an-optional-compiled-build.md). A
compiled class has no interpreted subclasses unless it says that it allows them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING, Literal, TypeVar

from tidelog.model import steady_clock

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:
    Kind = TypeVar("Kind", bound=type)

    def mypyc_attr(**attributes: bool) -> Callable[[Kind], Kind]:
        """The compiler reads it in the source; nobody calls it for what it does."""
        return lambda kind: kind


def build() -> Literal["compiled", "pure"]:
    """By one of the modules that are compiled, if any is."""
    is_compiled = steady_clock.__file__.endswith(tuple(EXTENSION_SUFFIXES))
    return "compiled" if is_compiled else "pure"

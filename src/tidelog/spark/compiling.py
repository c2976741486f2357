"""Compiled functions: numba, with explicit types and a cache on disk.

Explicit types make numba compile at import, once per machine: a Spark task then loads machine code
in milliseconds. Where no directory for the cache is writable (a read-only image without a home),
numba refuses to cache; the function is then compiled in each process, which takes seconds and works
all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

BYTES = "Array(uint8, 1, 'C', True)"
INTS = "Array(int32, 1, 'C', True)"
"""Types of arrays that are only read: those of others, such as Arrow's, can't be written to."""

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(signature: str) -> Callable[[_F], _F]:
    """`@compiled("int64(uint8[::1])")`: to machine code of exactly these types, without the GIL."""

    def compile_function(function: _F) -> _F:
        try:
            made = numba.njit(signature, cache=True, nogil=True)(function)
        except (RuntimeError, OSError):
            made = numba.njit(signature, nogil=True)(function)
        return cast(_F, made)

    return compile_function


def inlined(function: _F) -> _F:
    """A part of compiled functions: compiled with them, and kept in their caches."""
    return cast(_F, numba.njit(nogil=True, inline="always")(function))

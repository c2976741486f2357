"""Mappings and sets that images share: a changed copy costs the square root of the size.

Entries are in buckets by their hash, about as many buckets as a bucket has entries. A copy shares
all buckets, and copies one when it is first written to. So an image of 10,000 topics is changed by
copying 256 references and one bucket of 40 entries. `copy`, change, `freeze`: from then on it is
constant, and may be shared.

Which bucket a key is in depends on `PYTHONHASHSEED`, so nothing may be done in the order of the
buckets: a `PersistentMap` is gone through in the order of insertion, as a dictionary is. A
`PersistentSet` has no order: who goes through it sorts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

FEWEST_BUCKETS = 16
_GROWTH = 4
_EMPTY: dict[Any, Any] = {}


class Buckets(Generic[K, V]):
    """What both are made of: keys to entries, without an order."""

    __slots__ = ("_buckets", "_mask", "_own", "_size")

    def __init__(self) -> None:
        self._buckets: list[dict[K, V]] = [_EMPTY] * FEWEST_BUCKETS
        self._mask = FEWEST_BUCKETS - 1
        self._size = 0
        self._own: set[int] | None = set()
        """The buckets that no other copy has; None: this one is frozen."""

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & self._mask]

    def freeze(self) -> None:
        self._own = None

    def _share_with(self, copy: Buckets[K, V]) -> None:
        assert self._own is None, "what is still changed can't be shared"
        copy._buckets = self._buckets.copy()
        copy._mask = self._mask
        copy._size = self._size
        copy._own = set()

    def _bucket(self, key: K) -> dict[K, V]:
        """The bucket of the key, to be written to."""
        assert self._own is not None, "it is frozen"
        number = hash(key) & self._mask
        if number not in self._own:
            self._own.add(number)
            self._buckets[number] = self._buckets[number].copy()
        return self._buckets[number]

    def _put(self, key: K, entry: V) -> None:
        bucket = self._bucket(key)
        self._size += key not in bucket
        bucket[key] = entry
        if self._size > len(self._buckets) ** 2:
            self._grow()

    def _take(self, key: K) -> None:
        del self._bucket(key)[key]
        self._size -= 1

    def _grow(self) -> None:
        grown: list[dict[K, V]] = [{} for _ in range(len(self._buckets) * _GROWTH)]
        self._mask = len(grown) - 1
        for bucket in self._buckets:
            for key, entry in bucket.items():
                grown[hash(key) & self._mask][key] = entry
        self._buckets = grown
        self._own = set(range(len(grown)))


class PersistentSet(Buckets[K, None]):
    """Going through it has no order: sort it."""

    __slots__ = ()

    def copy(self) -> PersistentSet[K]:
        """To be changed, then frozen."""
        copy: PersistentSet[K] = PersistentSet()
        self._share_with(copy)
        return copy

    def add(self, key: K) -> None:
        self._put(key, None)

    def remove(self, key: K) -> None:
        self._take(key)

    def __iter__(self) -> Iterator[K]:
        for bucket in self._buckets:
            yield from bucket


class PersistentMap(Buckets[K, tuple[int, V]], Mapping[K, V]):
    """In the order of insertion; another value leaves a key where it was."""

    __slots__ = ("_next_rank", "_order")

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        super().__init__()
        self._next_rank = 0
        self._order: list[K] | None = None
        """All keys in order, once somebody has asked for it, and until one comes or goes."""
        for key, value in items.items() if isinstance(items, Mapping) else items:
            self[key] = value
        self.freeze()

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) & self._mask][key][1]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        entry = self._buckets[hash(key) & self._mask].get(key)
        return default if entry is None else entry[1]

    def __iter__(self) -> Iterator[K]:
        if self._order is None:
            ranks = {key: entry[0] for bucket in self._buckets for key, entry in bucket.items()}
            self._order = sorted(ranks, key=ranks.__getitem__)
        return iter(self._order)

    def rank(self, key: K) -> int:
        """Larger than that of every key that came before."""
        return self._buckets[hash(key) & self._mask][key][0]

    # --- while it is being made ---------------------------------------------------------------

    def copy(self) -> PersistentMap[K, V]:
        """To be changed, then frozen."""
        copy: PersistentMap[K, V] = PersistentMap()
        self._share_with(copy)
        copy._next_rank, copy._order = self._next_rank, self._order
        return copy

    def __setitem__(self, key: K, value: V) -> None:
        known = self._buckets[hash(key) & self._mask].get(key)
        if known is None:
            self._order = None
            self._put(key, (self._next_rank, value))
            self._next_rank += 1
        else:
            self._put(key, (known[0], value))

    def __delitem__(self, key: K) -> None:
        self._order = None
        self._take(key)

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"

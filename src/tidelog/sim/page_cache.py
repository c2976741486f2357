"""What of a simulated disk is in memory: the twin of `runtime.cached`, and how long reads take.

A real page cache depends on all that the machine does. Here luck decides: each block of a file that
a node looks at, and can wait for, is in memory or not. Once read, or found there, it stays for a
while; how long is drawn as well. In many runs all of it is, always: then nothing is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from weakref import WeakKeyDictionary

from tidelog.sim.images import FileImage

BLOCK_BYTES = 512
"""Small, as the segments are: a range of a few batches has several."""


@dataclass(slots=True, frozen=True)
class CachePlan:
    """Of one run."""

    cold_share: float = 0.0
    """Of the blocks that are looked at first, or again after they were dropped."""
    drop_share: float = 0.0
    """How often a block is dropped between two looks at it."""
    read_ms: tuple[float, float] = (0.1, 3.0)
    slow_share: float = 0.0
    """Of the reads, those that take `slow_ms`: much happens meanwhile."""
    slow_ms: tuple[float, float] = (50.0, 1_500.0)

    def draw_read_ms(self, random: Random) -> float:
        is_slow = random.random() < self.slow_share
        return random.uniform(*(self.slow_ms if is_slow else self.read_ms))


def draw_cache_plan(random: Random) -> CachePlan:
    """Two runs in five have cold data, some of them hardly anything else."""
    if random.random() < 0.6:
        return CachePlan()
    return CachePlan(
        cold_share=random.choice((0.1, 0.5, 1.0)),
        drop_share=random.choice((0.0, 0.05, 0.5)),
        slow_share=random.choice((0.0, 0.1, 0.5)),
    )


class PageCache:
    """One host's. A restarted process finds it as it was; only a deleted file leaves it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.plan = CachePlan()
        self._hot: WeakKeyDictionary[FileImage, set[int]] = WeakKeyDictionary()

    def heal(self) -> None:
        """There is memory enough, and the disk answers quickly: what is read stays."""
        self.plan = replace(self.plan, drop_share=0.0, slow_share=0.0)

    def has(self, image: FileImage, position: int, size: int) -> bool:
        """Whether all of the range is in memory, as far as the file goes."""
        if not self.plan.cold_share:
            return True
        hot = self._hot.setdefault(image, set())
        return all(self._look(hot, block) for block in _blocks(image, position, size))

    def load(self, image: FileImage, position: int, size: int) -> None:
        self._hot.setdefault(image, set()).update(_blocks(image, position, size))

    def _look(self, hot: set[int], block: int) -> bool:
        if block in hot:
            if self._random.random() >= self.plan.drop_share:
                return True
            hot.discard(block)
            return False
        if self._random.random() < self.plan.cold_share:
            return False
        hot.add(block)
        return True


def _blocks(image: FileImage, position: int, size: int) -> range:
    end = min(position + size, len(image.cached))
    return range(position // BLOCK_BYTES, -(-end // BLOCK_BYTES)) if end > position else range(0)

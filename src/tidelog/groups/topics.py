"""What groups need to know of the cluster's topics."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID


class Topics(Protocol):
    """The broker's image, seen by groups. `version` changes whenever any answer may have."""

    @property
    def version(self) -> int: ...

    def topic_id(self, name: str) -> UUID | None: ...

    def name(self, topic_id: UUID) -> str | None: ...

    def partitions(self, name: str) -> int | None:
        """How many; `None` for an unknown topic."""

    def names(self) -> list[str]: ...

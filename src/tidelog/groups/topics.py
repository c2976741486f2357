"""What groups need to know of the cluster: its topics, and the groups' own settings."""

from __future__ import annotations

from collections.abc import Mapping
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

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """The settings that clients gave to this group; `version` need not change with them."""

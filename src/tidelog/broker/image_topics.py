"""The committed image, as groups see it (`groups.topics.Topics`)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from tidelog.metadata.image import Image
from tidelog.model.ids import TopicId


class ImageTopics:
    """Always the newest image: `current` is asked each time."""

    def __init__(self, current: Callable[[], Image]) -> None:
        self._current = current

    @property
    def version(self) -> int:
        return self._current().version

    def topic_id(self, name: str) -> UUID | None:
        topic = self._current().topics.get(name)
        return None if topic is None else topic.topic_id

    def name(self, topic_id: UUID) -> str | None:
        return self._current().names.get(TopicId(topic_id))

    def partitions(self, name: str) -> int | None:
        topic = self._current().topics.get(name)
        return None if topic is None else len(topic.partitions)

    def names(self) -> list[str]:
        return sorted(self._current().topics)

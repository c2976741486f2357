"""The committed image, as groups see it (`groups.topics.Topics`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

from tidelog.metadata.image import Image
from tidelog.metadata.states import GROUP, Resource
from tidelog.model.ids import TopicId


class HasImage(Protocol):
    image: Image


class ImageTopics:
    """Always the newest image of `node`."""

    def __init__(self, node: HasImage) -> None:
        self._node = node

    @property
    def version(self) -> int:
        return self._node.image.version

    def topic_id(self, name: str) -> UUID | None:
        topic = self._node.image.topics.get(name)
        return None if topic is None else topic.topic_id

    def name(self, topic_id: UUID) -> str | None:
        return self._node.image.names.get(TopicId(topic_id))

    def partitions(self, name: str) -> int | None:
        topic = self._node.image.topics.get(name)
        return None if topic is None else len(topic.partitions)

    def names(self) -> list[str]:
        return sorted(self._node.image.topics)

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        return self._node.image.configs_of(Resource(GROUP, group_id))

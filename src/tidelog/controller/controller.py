"""The controller: decides on the newest facts, committed or not, and remembers what it decided.

A second command may come before the first one's records are committed; deciding it on the
committed image would create a topic twice. So the controller keeps its own image, one step ahead
of the broker's: `appended` moves it when records enter the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from tidelog.controller.configs import ConfigChange, ConfigOutcome, decide_alter_topic
from tidelog.controller.decision import Decision
from tidelog.controller.nodes import (
    decide_allocate_producer_ids,
    decide_cluster_identity,
    decide_lead_after_crash,
    decide_register_node,
)
from tidelog.controller.topics import (
    TopicOutcome,
    TopicRules,
    TopicSpec,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from tidelog.metadata.image import Image, NodeState
from tidelog.metadata.records import MetadataRecord
from tidelog.model.ids import NodeId, TopicId


class Controller:
    """Commands to decisions, on the newest image."""

    def __init__(self, image: Image, rules: TopicRules, random: Random) -> None:
        self._image = image
        self._rules = rules
        self._random = random

    @property
    def image(self) -> Image:
        return self._image

    def appended(self, records: Sequence[MetadataRecord]) -> None:
        """A decision's records are in the log."""
        self._image, _ = self._image.replay(records)

    def create_topics(self, specs: Sequence[TopicSpec]) -> Decision[list[TopicOutcome]]:
        return decide_create_topics(self._image, specs, rules=self._rules, random=self._random)

    def create_partitions(
        self, name: str, *, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> Decision[TopicOutcome]:
        return decide_create_partitions(
            self._image, name, count=count, assignments=assignments, rules=self._rules
        )

    def alter_topic(
        self, name: str, changes: Sequence[ConfigChange], *, defaults: Mapping[str, str]
    ) -> Decision[ConfigOutcome]:
        return decide_alter_topic(self._image, name, changes, defaults=defaults)

    def delete_topics(
        self, targets: Sequence[tuple[str | None, TopicId]]
    ) -> Decision[list[TopicOutcome]]:
        return decide_delete_topics(self._image, targets)

    def allocate_producer_ids(self) -> Decision[range]:
        return decide_allocate_producer_ids(self._image)

    def identify_cluster(self) -> Decision[str]:
        return decide_cluster_identity(self._image, self._random)

    def register_node(
        self, node_id: NodeId, *, host: str, port: int, rack: str | None
    ) -> Decision[NodeState]:
        return decide_register_node(self._image, node_id, host=host, port=port, rack=rack)

    def lead_after_crash(self, node_id: NodeId) -> Decision[None]:
        return decide_lead_after_crash(self._image, node_id)

"""What a batch of metadata records changed: what a node must do beyond replacing its image."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.model.ids import PartitionKey, TopicId, TopicPartition


@dataclass(slots=True)
class Delta:
    """Dictionaries keep the records' order, so that every run does the same in the same order."""

    created: list[TopicId] = field(default_factory=list)
    partitions: dict[PartitionKey, TopicPartition] = field(default_factory=dict)
    configured: list[TopicId] = field(default_factory=list)
    removed: dict[TopicId, str] = field(default_factory=dict)

"""Images of clusters as large as one likes, without a process."""

from __future__ import annotations

from uuid import UUID

from tidelog.metadata.image import Image
from tidelog.metadata.records import (
    ClusterRecord,
    MetadataRecord,
    NodeRecord,
    PartitionRecord,
    TopicRecord,
)

REPLICAS = 3
_FIRST_ID = 1000


def topic_name(topic: int) -> str:
    return f"topic-{topic:06}"


def topic_id(topic: int) -> UUID:
    return UUID(int=_FIRST_ID + topic)


def records_of(*, nodes: int, topics: int, partitions: int) -> list[MetadataRecord]:
    """A cluster in which every partition is in sync and each node keeps and leads as many as every
    other. `partitions` are those of each topic."""
    records: list[MetadataRecord] = [ClusterRecord(cluster_id="scale", last_broker_epoch=nodes)]
    records += [
        NodeRecord(
            node_id=number,
            host=f"host-{number}",
            port=9092,
            rack=f"rack-{number % REPLICAS}",
            epoch=number + 1,
            incarnation_id=UUID(int=number + 1),
            is_fenced=False,
            is_shutting_down=False,
            listeners=[],
        )
        for number in range(nodes)
    ]
    placed = 0
    for topic in range(topics):
        records.append(TopicRecord(name=topic_name(topic), topic_id=topic_id(topic)))
        for partition in range(partitions):
            replicas = [(placed + step) % nodes for step in range(min(nodes, REPLICAS))]
            placed += 1
            records.append(
                PartitionRecord(
                    topic_id=topic_id(topic),
                    partition=partition,
                    replicas=replicas,
                    isr=replicas,
                    leader=replicas[0],
                    leader_epoch=0,
                )
            )
    return records


def image_of(*, nodes: int, topics: int, partitions: int) -> Image:
    image, _ = Image().replay(records_of(nodes=nodes, topics=topics, partitions=partitions))
    return image

"""The names of things. A `NewType` costs nothing at run time and tells an offset from a size."""

from __future__ import annotations

from typing import NamedTuple, NewType
from uuid import UUID

NodeId = NewType("NodeId", int)
ConnectionId = NewType("ConnectionId", int)
CallId = NewType("CallId", int)
"""One request of this node to another."""

LeaderEpoch = NewType("LeaderEpoch", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""One registration of a node; never given out again, also not to another node."""

ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)

Offset = NewType("Offset", int)
"""Counts records within a partition."""

Position = NewType("Position", int)
"""Counts bytes within a file."""

TopicId = NewType("TopicId", UUID)
NO_TOPIC_ID = TopicId(UUID(int=0))

NO_NODE = NodeId(-1)
NO_LEADER = NO_NODE
"""Who leads a partition that nobody may lead at the moment."""

NO_OFFSET = Offset(-1)
NO_EPOCH = LeaderEpoch(-1)
NO_BROKER_EPOCH = BrokerEpoch(-1)
NO_PRODUCER = ProducerId(-1)
NO_TIMESTAMP = -1


class Endpoint(NamedTuple):
    """Where a node is reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TopicPartition(NamedTuple):
    """A partition as people name it. A topic created again under the name is another topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionKey(NamedTuple):
    """A partition for good: what directories, logs and state are kept by."""

    topic_id: TopicId
    partition: int

"""Node 1, whose metadata names two others that follow it (or lead): the test plays them."""

from __future__ import annotations

from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.controller.decision import Decision
from tidelog.metadata.records import MetadataRecord, NodeRecord, PartitionRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicId
from tidelog.partition.isr import ProposeIsr
from tidelog.partition.leader import Leader
from tidelog.partition.replica import Replica

TOPIC = "orders"
OTHERS = (NodeId(2), NodeId(3))
BROKER_EPOCH = 20


class FollowedNode(NodeDriver):
    """Its topic is "orders", of as many partitions as it is asked to `lead`."""

    def lead(
        self,
        partitions: int = 1,
        *,
        leader: int = 1,
        epoch: int = 1,
        isr: tuple[int, ...] = (1, 2),
        replicas: tuple[int, ...] = (1, 2),
        first: int = 0,
    ) -> None:
        """Commit who keeps and leads them from now on."""
        if TOPIC not in self.node.state.image.topics:
            self.create_topic(TOPIC, partitions=partitions)
            self.commit(*(node_record(node) for node in OTHERS))
        records = [
            PartitionRecord(
                topic_id=self.topic_id,
                partition=partition,
                replicas=list(replicas),
                isr=list(isr),
                leader=leader,
                leader_epoch=epoch,
                partition_epoch=epoch,
            )
            for partition in range(first, partitions)
        ]
        self.commit(*records)

    def commit(self, *records: MetadataRecord) -> None:
        committed = self.node.state.commit(Decision(list(records), None), self.now)
        assert not isinstance(committed, ErrorCode)
        self.advance(0)

    @property
    def topic_id(self) -> TopicId:
        return self.node.state.image.topics[TOPIC].topic_id

    def replica(self, partition: int = 0) -> Replica:
        found = self.node.state.replicas.find(TOPIC, partition)
        assert isinstance(found, Replica)
        return found

    def leader(self, partition: int = 0) -> Leader:
        found = self.replica(partition).leader
        assert found is not None
        return found

    def append(self, partition: int = 0, *, acks: int = 1) -> int:
        """The correlation id of the request."""
        request = produce_request(TOPIC, batch_of(b"value"), partition=partition, acks=acks)
        return self.submit(request, version=9, connection=self.connect())

    def proposals(self) -> list[ProposeIsr]:
        return self.node.state.replicas.take_proposals(self.now_ms)


def node_record(node_id: int, *, epoch: int = BROKER_EPOCH, is_fenced: bool = False) -> NodeRecord:
    return NodeRecord(
        node_id=node_id,
        host=f"host{node_id}",
        port=9092,
        rack=None,
        epoch=epoch,
        is_fenced=is_fenced,
    )

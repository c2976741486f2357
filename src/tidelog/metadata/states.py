"""The parts of an image: nodes, partitions, topics. Frozen values; a change makes a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from tidelog.metadata.records import (
    LEADER_UNCHANGED,
    ListenerRecord,
    NodeChangeRecord,
    NodeRecord,
    PartitionChangeRecord,
    PartitionRecord,
)
from tidelog.model.ids import (
    NO_BROKER_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionKey,
    TopicId,
    TopicPartition,
)


class Resource(NamedTuple):
    """What has settings besides topics. `kind` is the protocol's number: a node or a group."""

    kind: int
    name: str


BROKER = 4
BROKER_LOGGER = 8
GROUP = 32
ALL_NODES = ""
"""The name of the resource of kind `BROKER` that means every node."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address of a node, as it was registered."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class NodeState:
    """A registered node and where clients reach it.

    `epoch` is its broker epoch: larger with each registration, over all nodes. A fenced node may
    lead nothing and is in no ISR; one that is shutting down has given away what it led.
    """

    node_id: NodeId
    host: str
    port: int
    rack: str | None
    epoch: BrokerEpoch
    incarnation_id: UUID = NO_TOPIC_ID
    is_fenced: bool = False
    is_shutting_down: bool = False
    listeners: tuple[Listener, ...] = ()
    served_epoch: BrokerEpoch = NO_BROKER_EPOCH
    """The last under which it was not fenced: only then may others have counted on what it had."""

    @property
    def is_usable(self) -> bool:
        """Whether it may lead, and be given new partitions."""
        return not (self.is_fenced or self.is_shutting_down)

    @classmethod
    def of(cls, record: NodeRecord) -> NodeState:
        return cls(
            node_id=NodeId(record.node_id),
            host=record.host,
            port=record.port,
            rack=record.rack,
            epoch=BrokerEpoch(record.epoch),
            incarnation_id=record.incarnation_id,
            is_fenced=record.is_fenced,
            is_shutting_down=record.is_shutting_down,
            listeners=tuple(
                Listener(each.name, each.host, each.port, each.security_protocol)
                for each in record.listeners
            ),
            served_epoch=BrokerEpoch(record.served_epoch if record.is_fenced else record.epoch),
        )

    def changed(self, record: NodeChangeRecord) -> NodeState:
        is_let_in = record.is_fenced == 0
        return replace(
            self,
            served_epoch=self.epoch if is_let_in else self.served_epoch,
            is_fenced=self.is_fenced if record.is_fenced < 0 else bool(record.is_fenced),
            is_shutting_down=(
                self.is_shutting_down
                if record.is_shutting_down < 0
                else bool(record.is_shutting_down)
            ),
        )

    def to_record(self) -> NodeRecord:
        return NodeRecord(
            node_id=self.node_id,
            host=self.host,
            port=self.port,
            rack=self.rack,
            epoch=self.epoch,
            incarnation_id=self.incarnation_id,
            is_fenced=self.is_fenced,
            is_shutting_down=self.is_shutting_down,
            served_epoch=self.served_epoch,
            listeners=[
                ListenerRecord(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in self.listeners
            ],
        )


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who keeps a partition and who leads it.

    `replicas` are all who keep it, the preferred leader first; while they are being reassigned,
    also those who are to come (`adding_replicas`) and to go (`removing_replicas`). `elr` are the
    eligible leader replicas (KIP-966): not in sync, but known to have every committed record.
    `last_known_elr` were eligible once, and may have lost something since.
    """

    key: PartitionKey
    name: TopicPartition
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int = 0
    adding_replicas: tuple[NodeId, ...] = ()
    removing_replicas: tuple[NodeId, ...] = ()
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[NodeId, ...]:
        """Who keeps the partition once a reassignment is done."""
        if not self.removing_replicas:
            return self.replicas
        return tuple(node for node in self.replicas if node not in self.removing_replicas)

    @property
    def original_replicas(self) -> tuple[NodeId, ...]:
        """Who kept the partition before the reassignment."""
        return tuple(node for node in self.replicas if node not in self.adding_replicas)

    @classmethod
    def of(cls, record: PartitionRecord, topic: str) -> PartitionState:
        return cls(
            key=PartitionKey(TopicId(record.topic_id), record.partition),
            name=TopicPartition(topic, record.partition),
            replicas=_nodes(record.replicas),
            isr=_nodes(record.isr),
            leader=NodeId(record.leader),
            leader_epoch=LeaderEpoch(record.leader_epoch),
            partition_epoch=record.partition_epoch,
            adding_replicas=_nodes(record.adding_replicas),
            removing_replicas=_nodes(record.removing_replicas),
            elr=_nodes(record.elr),
            last_known_elr=_nodes(record.last_known_elr),
        )

    def changed(self, record: PartitionChangeRecord) -> PartitionState:
        has_leader = record.leader != LEADER_UNCHANGED
        return replace(
            self,
            replicas=_nodes(record.replicas, self.replicas),
            isr=_nodes(record.isr, self.isr),
            leader=NodeId(record.leader) if has_leader else self.leader,
            leader_epoch=LeaderEpoch(self.leader_epoch + has_leader),
            partition_epoch=self.partition_epoch + 1,
            adding_replicas=_nodes(record.adding_replicas, self.adding_replicas),
            removing_replicas=_nodes(record.removing_replicas, self.removing_replicas),
            elr=_nodes(record.elr, self.elr),
            last_known_elr=_nodes(record.last_known_elr, self.last_known_elr),
        )

    def to_record(self) -> PartitionRecord:
        return PartitionRecord(
            topic_id=self.key.topic_id,
            partition=self.key.partition,
            replicas=list(self.replicas),
            isr=list(self.isr),
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            adding_replicas=list(self.adding_replicas),
            removing_replicas=list(self.removing_replicas),
            elr=list(self.elr),
            last_known_elr=list(self.last_known_elr),
        )


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic: its lasting id, its partitions in order, and the settings given to it by hand."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionState, ...] = ()
    configs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_internal(self) -> bool:
        return self.name.startswith("__")


def _nodes(numbers: list[int] | None, before: tuple[NodeId, ...] = ()) -> tuple[NodeId, ...]:
    """The nodes of a record's field; those of before where it says nothing."""
    return before if numbers is None else tuple(NodeId(number) for number in numbers)

"""A controller of one partition, by the rules the real one has: compare-and-set, ISR, ELR,
epochs."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tidelog.metadata.image import NodeState, PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_NODE,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from tidelog.partition.isr import ProposeIsr

TOPIC_ID = TopicId(UUID(int=7))
KEY = PartitionKey(TOPIC_ID, 0)
NAME = TopicPartition("orders", 0)


class ToyController:
    """`state` is what is committed; `history` all that ever was, for those who learn it late."""

    def __init__(self, nodes: tuple[NodeId, ...], *, min_isr: int) -> None:
        self.nodes = {
            node: NodeState(node, f"host{node}", 9092, None, BrokerEpoch(1)) for node in nodes
        }
        self.fenced: set[NodeId] = set()
        self.min_isr = min_isr
        self.state = PartitionState(KEY, NAME, nodes, nodes, nodes[0], LeaderEpoch(0))
        self.history = [self.state]

    @property
    def candidates(self) -> list[NodeId]:
        """Who has every committed record."""
        return [*self.state.isr, *self.state.elr]

    def alter(self, sender: NodeId, proposal: ProposeIsr) -> ErrorCode:
        """AlterPartition."""
        state = self.state
        if sender != state.leader or proposal.leader_epoch != state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member in proposal.isr:
            is_current = self.nodes[member.node_id].epoch == member.broker_epoch
            is_there = member.node_id in state.replicas and member.node_id not in self.fenced
            if not (is_current and is_there):
                return ErrorCode.INELIGIBLE_REPLICA
        self._commit(isr=proposal.nodes)
        return ErrorCode.NONE

    def fence(self, node: NodeId) -> None:
        if node in self.fenced:
            return
        self.fenced.add(node)
        state = self.state
        if node in state.isr:
            self._commit(isr=tuple(member for member in state.isr if member != node))

    def unfence(self, node: NodeId) -> None:
        self.fenced.discard(node)
        self._commit()

    def register(self, node: NodeId) -> int:
        """A new life of a node: fenced, whatever it was before."""
        self.fence(node)
        epoch = BrokerEpoch(self.nodes[node].epoch + 1)
        self.nodes[node] = replace(self.nodes[node], epoch=epoch)
        return epoch

    def elect(self, node: NodeId) -> None:
        """Another member of the in-sync set, because somebody wants it so."""
        if node in self.state.isr and node not in self.fenced:
            self._commit(leader=node, is_new_epoch=True)

    def remove(self, node: NodeId) -> None:
        """The replica moves away; the leader epoch says so to late fetches of its."""
        state = self.state
        isr = tuple(other for other in state.isr if other != node)
        if node != state.leader and (node not in self.candidates or len(isr) >= self.min_isr):
            replicas = tuple(other for other in state.replicas if other != node)
            self._commit(isr=isr, replicas=replicas, is_new_epoch=True)

    def add(self, node: NodeId) -> None:
        if node not in self.state.replicas:
            self._commit(replicas=(*self.state.replicas, node))

    def _commit(
        self,
        *,
        isr: tuple[NodeId, ...] | None = None,
        leader: NodeId | None = None,
        replicas: tuple[NodeId, ...] | None = None,
        is_new_epoch: bool = False,
    ) -> None:
        before = self.state
        members = before.isr if isr is None else isr
        left = [node for node in (*before.isr, *before.elr) if node not in members]
        eligible = tuple(dict.fromkeys(left)) if len(members) < self.min_isr else ()
        chosen = before.leader if leader is None else leader
        if chosen not in members:
            chosen, members, eligible = self._choose(members, eligible)
        epoch = before.leader_epoch
        if chosen != before.leader or is_new_epoch:
            epoch = LeaderEpoch(epoch + 1)
        after = replace(
            before,
            replicas=before.replicas if replicas is None else replicas,
            isr=members,
            elr=eligible,
            leader=chosen,
            leader_epoch=epoch,
            partition_epoch=before.partition_epoch + 1,
        )
        if replace(after, partition_epoch=before.partition_epoch) != before:
            self.state = after
            self.history.append(after)

    def _choose(
        self, members: tuple[NodeId, ...], eligible: tuple[NodeId, ...]
    ) -> tuple[NodeId, tuple[NodeId, ...], tuple[NodeId, ...]]:
        """A leader from the in-sync set, else from the eligible ones, else nobody."""
        for node in members:
            if node not in self.fenced:
                return node, members, eligible
        for node in eligible:
            if node not in self.fenced:
                rest = tuple(other for other in eligible if other != node)
                return node, (*members, node), rest
        return NO_NODE, members, eligible

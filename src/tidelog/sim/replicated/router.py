"""How a client finds its way in a cluster: one connection per node, and a guess at who leads.

The guess comes from Metadata and is forgotten when a node says that it is wrong, or says nothing.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.sim.client import Answer, Client, Reply
from tidelog.sim.cluster import Cluster
from tidelog.sim.history import Partition
from tidelog.sim.schedule import Script
from tidelog.sim.workload.world import TopicFacts
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_METADATA_VERSION = 9
_FIND_VERSION = 4
_ASK_MS = 300.0
"""A node that is cut off answers nothing: better soon ask another."""


class Router:
    """One client of the whole cluster."""

    def __init__(self, cluster: Cluster, name: str, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._name = name
        self._clients: dict[NodeId, Client] = {}
        self._leaders: dict[Partition, NodeId] = {}
        self._epochs: dict[Partition, int] = {}
        self._coordinators: dict[str, NodeId] = {}

    def at(self, node_id: NodeId) -> Client:
        client = self._clients.get(node_id)
        if client is None:
            client = self._clients[node_id] = Client(
                self._cluster.schedule,
                self._cluster.network,
                self._cluster.hosts[node_id],
                name=f"{self._name}@{node_id}",
                report=self._cluster.world.findings.append,
            )
        return client

    def anybody(self) -> NodeId:
        return self._random.choice(list(self._cluster.hosts))

    def ask_anybody(self, request: Any, version: int, *, timeout_ms: float) -> Script[Reply]:
        reply: Reply = yield self.at(self.anybody()).call(request, version, timeout_ms=timeout_ms)
        return reply

    def leader_of(self, facts: TopicFacts, partition: int) -> Script[NodeId]:
        """Who leads, as far as known; somebody else now and then, as clients with old news ask."""
        tp = (facts.label, partition)
        if tp not in self._leaders:
            yield from self._learn(facts)
        if self._random.random() < 0.02:
            return self.anybody()
        return self._leaders.get(tp, self.anybody())

    def epoch_of(self, tp: Partition) -> int:
        """Of the newest leader it has heard of: readers name it, so that a leader of old, which may
        lack what they have read, knows that it is one."""
        return self._epochs.get(tp, -1)

    def forget_leader(self, tp: Partition) -> None:
        self._leaders.pop(tp, None)

    def coordinator_of(self, group: str) -> Script[NodeId | None]:
        if group not in self._coordinators:
            request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
            reply = yield from self.ask_anybody(request, _FIND_VERSION, timeout_ms=_ASK_MS)
            if isinstance(reply, Answer):
                row = reply.body.coordinators[0]
                if row.error_code is ErrorCode.NONE:
                    self._coordinators[group] = NodeId(row.node_id)
        return self._coordinators.get(group)

    def forget_coordinator(self, group: str) -> None:
        self._coordinators.pop(group, None)

    def hang_up(self) -> None:
        for client in self._clients.values():
            client.hang_up()

    def _learn(self, facts: TopicFacts) -> Script[None]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=facts.name)], allow_auto_topic_creation=False
        )
        reply = yield from self.ask_anybody(request, _METADATA_VERSION, timeout_ms=_ASK_MS)
        if not isinstance(reply, Answer):
            return
        for topic in reply.body.topics:
            for partition in topic.partitions:
                if partition.leader_id in self._cluster.hosts:
                    tp = (facts.label, partition.partition_index)
                    self._leaders[tp] = NodeId(partition.leader_id)
                    self._epochs[tp] = max(self.epoch_of(tp), partition.leader_epoch)

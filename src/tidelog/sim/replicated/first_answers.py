"""What nodes tell clients of the metadata, their first answers after a restart above all.

A node that has restarted knows no less than its last incarnation did, and no less than what was
true when the cluster let it in. So its answers name a broker at least, know every topic that was
created before and never deleted, and tell no leader epoch below one that the node has told before.

There is one exception. If no node can reach the controller for a while, the controller fences all
of them, and an answer that names no broker is true. So it is no finding if the cluster has agreed
on such an image since it let in this life of the node.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tidelog.metadata.image import Image
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import Host
from tidelog.sim.replicated.invariants import Invariants
from tidelog.sim.replicated.router import Router
from tidelog.sim.schedule import Pause, Script
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

CONCERN = "first answers"
"""The stream of random numbers for it."""

SHARE_OF_SEEDS = 0.4

_VERSION = 9
_TIMEOUT_MS = 2_000
_PAUSE_MS = 8.0


class FirstAnswers:
    """Judges answers of all nodes, across their incarnations."""

    def __init__(self, cluster: Cluster, invariants: Invariants) -> None:
        self._cluster = cluster
        self._invariants = invariants
        self._image: Image | None = None
        """The last that was looked at, of those the cluster has agreed on."""
        self._without_brokers: set[tuple[NodeId, int]] = set()
        """Lives of nodes that were let in before the cluster fenced everybody."""
        for host in cluster.hosts.values():
            host.after_step.append(self._look)
        self._lives_before = {node_id: host.lives for node_id, host in cluster.hosts.items()}
        self._epochs: dict[tuple[NodeId, str, int], int] = {}

    def judge(self, node_id: NodeId, topic: str, answer: Answer) -> None:
        """A node that has run since before the topic was created may be slow to hear of it."""
        row = answer.body.topics[0]
        if answer.incarnation > self._lives_before[node_id]:
            if row.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._find(f"node {node_id} restarted and does not know the topic {topic}")
            life = (node_id, answer.incarnation)
            if not answer.body.brokers and life not in self._without_brokers:
                self._find(f"node {node_id} restarted and tells of no broker")
        for partition in row.partitions:
            self._judge_epoch(node_id, topic, partition)

    def _look(self, _: Host) -> None:
        image = self._invariants.image
        if image is self._image:
            return
        self._image = image
        if all(node.is_fenced for node in image.nodes.values()):
            for node_id, host in self._cluster.hosts.items():
                if host.life is not None and host.life.node.state.replicas.membership.may_lead:
                    self._without_brokers.add((node_id, host.life.number))

    def _judge_epoch(self, node_id: NodeId, topic: str, partition: Any) -> None:
        key = (node_id, topic, partition.partition_index)
        told = self._epochs.get(key, -1)
        if partition.leader_epoch < told:
            text = f"leader epoch {partition.leader_epoch} of {topic}-{partition.partition_index}"
            self._find(f"node {node_id} told {text}, after {told}")
        self._epochs[key] = max(told, partition.leader_epoch)

    def _find(self, text: str) -> None:
        world = self._cluster.world
        world.findings.append(Finding("metadata", text, len(world.history.entries)))


def metadata_asker(cluster: Cluster, invariants: Invariants, random: Random) -> Script[None]:
    """Asks one node after the other, until the world is over."""
    world, router = cluster.world, Router(cluster, CONCERN, random)
    answers = FirstAnswers(cluster, invariants)
    while not world.is_over:
        node_id = router.anybody()
        topic = world.topics[random.choice(list(world.topics))].name
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        reply = yield router.at(node_id).call(request, _VERSION, timeout_ms=_TIMEOUT_MS)
        if isinstance(reply, Answer):
            world.counted["Metadata, of any node"] += 1
            answers.judge(node_id, topic, reply)
        yield Pause(random.expovariate(1.0 / _PAUSE_MS))
    router.hang_up()

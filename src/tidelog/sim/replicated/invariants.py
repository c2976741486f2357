"""What must be true of the nodes' own state, whatever clients see: the I properties.

Looked at after every few steps, with the eyes of somebody who sees all nodes at once. How far a
partition was ever committed is remembered (`true_watermark`), so that a leader which has lost some
of it, or a member of the in-sync set without it, is found at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.broker.node import Node
from tidelog.broker.offsets_log import OFFSETS_TOPIC
from tidelog.broker.quorum_journal import QuorumJournal
from tidelog.log.log import Log
from tidelog.metadata.image import Image, PartitionState
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset, PartitionKey
from tidelog.partition.leader import Leader
from tidelog.partition.replica import Replica
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import Host
from tidelog.sim.replicated.convergence import bytes_of, find_difference
from tidelog.sim.replicated.image_watch import ImageWatch
from tidelog.sim.replicated.matching import NO_RECORDS, Matching
from tidelog.sim.replicated.quorum_watch import QuorumWatch

_OFFSETS_FACTOR = 3
"""The default of `offsets.topic.replication.factor`; no cluster here has fewer nodes."""


@dataclass(slots=True)
class _Facts:
    """Of one partition, over all time."""

    true_watermark: Offset = NO_RECORDS
    leader_epoch: LeaderEpoch = NO_EPOCH
    leaders: dict[LeaderEpoch, NodeId] = field(default_factory=dict)
    watermarks: dict[LeaderEpoch, Offset] = field(default_factory=dict)
    resting: dict[NodeId, tuple[Leader, int, Offset]] = field(default_factory=dict)
    """Who had too few in sync when last looked at, in which partition epoch, at which watermark."""


class Invariants:
    """Of one run. `look` is called after steps; a violation is a finding, once."""

    def __init__(self, cluster: Cluster, *, is_flushed_first: bool = True) -> None:
        self._cluster = cluster
        self._is_flushed_first = is_flushed_first
        self._facts: dict[PartitionKey, _Facts] = {}
        self._said: set[str] = set()
        self.spared: set[str] = set()
        """Topics in which unclean elections are made: what they have committed may be gone."""
        self._newest: tuple[Offset, Image] = (NO_RECORDS, Image())
        """What the cluster has agreed on, as far as the quickest node knows."""
        self._quorum = QuorumWatch(cluster, self._find)
        self._images = ImageWatch(self._find)
        self._matching = Matching(self._find)
        for host in cluster.hosts.values():
            host.after_step.append(self._look)

    @property
    def image(self) -> Image:
        """What the cluster has agreed on."""
        return self._newest[1]

    def true_watermark(self, key: PartitionKey) -> Offset:
        """How far the partition was ever committed."""
        facts = self._facts.get(key)
        return NO_RECORDS if facts is None else facts.true_watermark

    # --- after every step ------------------------------------------------------------------------

    def _look(self, host: Host) -> None:
        """At what the node that has just stepped may have changed."""
        if host.life is None:
            return
        node_id, node = host.node_id, host.life.node
        if isinstance(node.state.journal, QuorumJournal):
            self._quorum.look(host, host.life)
        self._images.look(node_id, host.life)
        offset = node.state.journal.committed_offset
        if offset > self._newest[0]:
            self._newest = (offset, node.state.image)
            self._check_image(node.state.image)
        for replica in node.state.replicas.by_key.values():
            if replica.name.topic in self.spared:
                continue
            facts = self._facts.setdefault(replica.key, _Facts())
            before = facts.true_watermark
            if replica.leader is not None:
                self._check_leader(node_id, replica, facts)
                self._check_isr(node_id, replica.leader, node.state.image, facts)
            state = self.image.partition(replica.key)
            if state is not None and facts.true_watermark > before:
                self._check_candidates(state, facts)
            elif state is not None and (node_id in state.isr or node_id in state.elr):
                self._check_candidate(node_id, state, facts)
            else:
                self._matching.look(node_id, replica, counts=False)

    def _check_leader(self, node_id: NodeId, replica: Replica, facts: _Facts) -> None:
        leader = replica.leader
        assert leader is not None
        epoch, watermark = leader.leader_epoch, leader.high_watermark
        other = facts.leaders.setdefault(epoch, node_id)
        if other != node_id:
            self._find("I1", f"{replica.name} is led by {other} and {node_id} in epoch {epoch}")
        before = facts.watermarks.get(epoch, Offset(0))
        if watermark < before:
            text = f"{replica.name} at {node_id}: the watermark fell from {before} to {watermark}"
            self._find("I10", f"{text} within epoch {epoch}")
        facts.watermarks[epoch] = max(before, watermark)
        is_current = epoch >= facts.leader_epoch
        is_telling = leader.may_acknowledge and leader.knows_end
        if not is_current and is_telling and watermark < facts.true_watermark:
            text = f"{replica.name}: node {node_id} still leads epoch {epoch} and tells {watermark}"
            self._find("C11", f"{text} as the end; {facts.true_watermark} was committed")
        if is_current and leader.log.log_end_offset < facts.true_watermark:
            self._find(
                "I8",
                f"{replica.name}: node {node_id} leads epoch {epoch} and ends at "
                f"{leader.log.log_end_offset}; {facts.true_watermark} was committed",
            )
        if watermark > facts.true_watermark:
            self._check_held(replica, watermark)
            self._matching.commit(replica, watermark)
            facts.true_watermark = watermark

    def _check_isr(self, node_id: NodeId, leader: Leader, known: Image, facts: _Facts) -> None:
        """I9: everybody whom the cluster holds in sync counts for the watermark of its leader. I12:
        the watermark rests while they are too few by what the leader's node has `known`."""
        isr, watermark = leader.isr, leader.high_watermark
        state, state_here = self.image.partition(leader.key), known.partition(leader.key)
        if state is not None and state.leader_epoch == leader.leader_epoch:
            forgotten = [node for node in state.isr if node not in isr.maximal]
            if forgotten:
                text = f"{leader.name}: node {node_id} leads epoch {leader.leader_epoch} without"
                self._find("I9", f"{text} {forgotten}, in sync for the cluster")
        if state_here is None or len(isr.committed) >= known.min_isr(state_here):
            facts.resting.pop(node_id, None)
            return
        now = (leader, isr.partition_epoch, watermark)
        before = facts.resting.get(node_id, now)
        if now[:2] == before[:2] and watermark > before[2]:
            text = f"{leader.name}: node {node_id} moved its watermark from {before[2]} to"
            self._find("I12", f"{text} {watermark} with too few in sync: {isr.committed}")
        facts.resting[node_id] = now

    def _check_held(self, replica: Replica, watermark: Offset) -> None:
        """I17: what is committed has survived a flush on every member of the in-sync set; under
        `flush.policy=os` (I12) it is written there. Whoever was taken out, and the leader has not
        heard of it, may have thrown its copy away."""
        newest = self.image.partition(replica.key)
        for member in replica.state.isr:
            host = self._cluster.hosts[member]
            if host.life is None or (newest is not None and member not in newest.isr):
                continue
            held = host.life.node.state.replicas.by_key.get(replica.key)
            if held is None:
                continue
            is_flushed, log = self._is_flushed_first, held.log
            end = log.flushed_offset if is_flushed else log.log_end_offset
            if end < watermark:
                text = f"{replica.name}: {watermark} is committed, node {member} in sync has {end}"
                self._find("I17" if is_flushed else "I12", text)

    def _check_image(self, image: Image) -> None:
        for state in image.partitions():
            facts = self._facts.setdefault(state.key, _Facts())
            if state.leader_epoch < facts.leader_epoch:
                self._find("I3", f"{state.name}: leader epoch fell to {state.leader_epoch}")
            facts.leader_epoch = max(facts.leader_epoch, state.leader_epoch)
            if state.name.topic not in self.spared:
                self._check_candidates(state, facts)

    def _check_candidates(self, state: PartitionState, facts: _Facts) -> None:
        for member in (*state.isr, *state.elr):
            self._check_candidate(member, state, facts)

    def _check_candidate(self, member: NodeId, state: PartitionState, facts: _Facts) -> None:
        """I6, I7: whoever may be elected has everything that was ever committed. What counts is the
        life that the cluster knows: one that has not registered yet is not the one it means."""
        host = self._cluster.hosts.get(member)
        if host is None or host.life is None:
            return
        registered = self.image.nodes.get(member)
        replicas = host.life.node.state.replicas
        if registered is None or registered.epoch != replicas.membership.broker_epoch:
            return
        held = replicas.by_key.get(state.key)
        if held is None or state.key in replicas.may_lack():
            return
        if held.log.log_end_offset < facts.true_watermark:
            self._find(
                "I7",
                f"{state.name}: node {member} may be elected and ends at "
                f"{held.log.log_end_offset}; {facts.true_watermark} was committed",
            )
        self._matching.look(member, held, counts=True)

    def _find(self, property: str, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._cluster.world.findings.append(Finding(property, text))

    # --- after everything was healed -------------------------------------------------------------

    def unsettled(self) -> str | None:
        """Why the cluster is not whole yet; None if every node serves and every partition has its
        leader and all of its replicas in sync, in everybody's eyes."""
        versions: set[Offset] = set()
        for node_id, host in self._cluster.hosts.items():
            if host.life is None:
                return f"node {node_id} is down"
            node = host.life.node
            if not node.is_serving:
                return f"node {node_id} does not serve: {node.describe().get('cluster')}"
            versions.add(node.state.journal.committed_offset)
            for state in node.state.image.partitions():
                is_moving = state.adding_replicas or state.removing_replicas
                is_full = sorted(state.isr) == sorted(state.replicas)
                if state.leader < 0 or is_moving or not is_full:
                    return f"node {node_id} believes {state}"
                if state.name.topic == OFFSETS_TOPIC and len(state.replicas) < _OFFSETS_FACTOR:
                    return f"{state.name} has not grown: it is kept by {state.replicas}"
        if len(versions) > 1:
            return f"the nodes have come to different metadata offsets: {sorted(versions)}"
        return self._lagging()

    def _lagging(self) -> str | None:
        for replica, node_id in self._replicas():
            leader = self._leader_of(replica)
            if leader is None:
                return f"{replica.name} has no leader that knows it"
            if replica.log.first_damaged_offset() is not None:
                return f"{replica.name} at {node_id} is damaged"
            if replica.log.log_end_offset != leader.log.log_end_offset:
                return f"{replica.name} at {node_id} ends at {replica.log.log_end_offset}"
            if replica.high_watermark != leader.log.log_end_offset:
                return f"{replica.name} at {node_id} has watermark {replica.high_watermark}"
        return None

    def meet_damage(self) -> None:
        """Read everything everywhere: what nobody has read yet may be damaged, and nobody know."""
        for replica, node_id in self._replicas():
            bytes_of(replica.log)
            self._cluster.hosts[node_id].reports += replica.take_reports()

    def check_convergence(self) -> list[Finding]:
        """I18: all replicas of a partition hold the same, but for topics of which each node forgets
        something in its own time."""
        logs: dict[PartitionKey, dict[NodeId, Log]] = {}
        for replica, node_id in self._replicas():
            if replica.name.topic not in self._cluster.world.cleaned:
                logs.setdefault(replica.key, {})[node_id] = replica.log
        differences = {key: find_difference(held) for key, held in logs.items()}
        return [Finding("I18", f"{key} is {text}") for key, text in differences.items() if text]

    def _replicas(self) -> Iterator[tuple[Replica, NodeId]]:
        for node_id, host in self._cluster.hosts.items():
            if host.life is not None:
                for replica in host.life.node.state.replicas.by_key.values():
                    yield replica, node_id

    def _leader_of(self, replica: Replica) -> Replica | None:
        host = self._cluster.hosts.get(replica.state.leader)
        if host is None or host.life is None:
            return None
        held: Node = host.life.node
        found = held.state.replicas.by_key.get(replica.key)
        return found if found is not None and found.leader is not None else None

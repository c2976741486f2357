"""What must be true of three replicas after every action, whatever happened to them.

The checks keep a *mirror* of each log (offset to epoch and value), read as it grows, and
`committed`: what was first seen below any leader's watermark at each offset. From these follow,
each by a look at what is new only: I4, I5, I6 (and I7: whoever may be elected has all that is
committed), I10, I12, I13, I17, and that nothing acknowledged is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.log.disk import FileSpan
from tidelog.model.ids import NodeId, Offset
from tidelog.partition.isr import ProposeIsr
from tidelog.partition.leader import Leader
from tidelog.wire.batch import iter_batches
from tidelog.wire.records import decode_records

if TYPE_CHECKING:
    from tests.support.mini_cluster import MiniCluster, ToyNode

Entry = tuple[int, int]
"""Epoch and value."""


class BrokenPromise(AssertionError):
    """A check has failed; the text tells what happened before."""


class Mirror:
    """One log, as last read."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.start = 0
        self.end = 0
        self.matched = 0
        """Below it, it was compared with what is committed."""
        self.durable_end: int | None = None
        """What was flushed when the node crashed, until it is read again."""


class ReplicationChecks:
    """Call `check` after every action, and the others when what they are named for happens."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._cluster = cluster
        self._mirrors: dict[NodeId, Mirror] = {}
        self._watermarks: dict[Leader, Offset] = {}
        self.committed: dict[int, Entry] = {}
        self.true_watermark = 0
        self.acked: dict[int, int] = {}
        self.told_start = 0

    def fail(self, text: str) -> None:
        cluster = self._cluster
        recent = "\n".join(cluster.trace[-45:])
        raise BrokenPromise(f"seed {cluster.seed}: {text}\n{cluster.describe()}\n{recent}")

    # --- what happened ------------------------------------------------------------------------

    def forget(self, node_id: NodeId) -> None:
        """The replica was deleted by a committed record."""
        self._mirrors.pop(node_id, None)

    def crashed(self, node_id: NodeId) -> None:
        replica = self._cluster.nodes[node_id].replica
        mirror = self._mirrors.get(node_id)
        if mirror is not None and replica is not None:
            mirror.durable_end = replica.log.flushed_offset

    def proposed(self, leader: Leader, proposal: ProposeIsr) -> None:
        added = [node for node in proposal.nodes if node not in leader.isr.committed]
        if added and not leader.is_proven and leader.has_enough_replicas:
            self.fail(f"I10: {added} proposed by a leader that does not know the watermark")

    def acknowledged(self, leader: Leader, last_offset: Offset, value: int) -> None:
        """I12, I17 at the moment an answer leaves."""
        cluster = self._cluster
        if not leader.has_enough_replicas:
            self.fail(f"I12: {value} acknowledged with {leader.isr.committed} in sync")
        if leader.leader_epoch == cluster.controller.state.leader_epoch:
            for node_id in cluster.controller.state.isr:
                replica = cluster.nodes[node_id].replica
                if replica is not None and replica.log.flushed_offset <= last_offset:
                    self.fail(
                        f"I17: {value} acknowledged at {last_offset}, not durable on {node_id}"
                    )
        self.acked[last_offset] = value
        cluster.note(f"acknowledged {value} at {last_offset}")
        known = self.committed.get(last_offset)
        if known is not None and known[1] != value:
            self.fail(f"lost: {value} acknowledged at {last_offset}, where {known} was committed")

    # --- what is --------------------------------------------------------------------------------

    def check(self) -> None:
        for node in self._cluster.nodes.values():
            if node.is_up and node.replica is not None:
                node.replica.validate()
                self._read(node)
        for node in self._cluster.nodes.values():
            if node.leader is not None:
                self._check_leader(node, node.leader)
        for node in self._cluster.nodes.values():
            if node.is_up and node.replica is not None:
                self._check_replica(node)

    def _read(self, node: ToyNode) -> None:
        assert node.replica is not None
        log = node.replica.log
        mirror = self._mirrors.setdefault(node.node_id, Mirror())
        end = log.log_end_offset
        if end < mirror.end:
            self._check_cut(node, mirror, end)
        if mirror.durable_end is not None and end < mirror.durable_end:
            self.fail(f"S1: {node.node_id} had {mirror.durable_end} flushed and has {end}")
        mirror.durable_end = None
        mirror.start = log.log_start_offset
        offset = max(mirror.end, mirror.start)
        while offset < end:
            span = log.read(Offset(offset), max_bytes=1 << 20, limit_offset=end, at_least_one=True)
            assert isinstance(span, FileSpan), f"{node.node_id} can't read {offset}: {span}"
            for header, batch in iter_batches(memoryview(span.read())):
                before = mirror.entries.get(header.base_offset - 1)
                if before is not None and header.leader_epoch < before[0]:
                    self.fail(f"I4: {node.node_id} falls from epoch {before[0]} at {offset}")
                for record in decode_records(batch, 1 << 20):
                    assert record.value is not None
                    mirror.entries[record.offset] = (header.leader_epoch, int(record.value))
                offset = header.next_offset
        mirror.end = end

    def _check_cut(self, node: ToyNode, mirror: Mirror, end: int) -> None:
        """I13: what is committed is never cut; after a crash, what was flushed is still there."""
        for offset in range(end, mirror.end):
            entry = mirror.entries.pop(offset, None)
            is_committed = entry is not None and self.committed.get(offset) == entry
            if is_committed and offset >= self._cluster_start() and mirror.durable_end is None:
                self.fail(f"I13: {node.node_id} cut {entry} at {offset}, which is committed")
        mirror.end = end
        mirror.matched = min(mirror.matched, end)

    def _cluster_start(self) -> int:
        leaders = (node.leader for node in self._cluster.nodes.values())
        starts = [leader.log.log_start_offset for leader in leaders if leader is not None]
        return max(starts, default=Offset(0))

    def _check_leader(self, node: ToyNode, leader: Leader) -> None:
        mirror = self._mirrors[node.node_id]
        watermark = leader.high_watermark
        before = self._watermarks.get(leader)
        if before is not None and watermark < before:
            self.fail(f"I10: the watermark of {node.node_id} falls from {before} to {watermark}")
        has_moved = before is not None and watermark > before
        if has_moved and not leader.has_enough_replicas:
            self.fail(f"I12: the watermark of {node.node_id} moves with {leader.isr.committed}")
        self._watermarks[leader] = watermark
        is_current = leader.leader_epoch == self._cluster.controller.state.leader_epoch
        if is_current and has_moved:
            self._check_watermark(node, leader)
        for offset in range(max(mirror.matched, mirror.start), watermark):
            entry = mirror.entries[offset]
            if self.committed.setdefault(offset, entry) != entry:
                self.fail(
                    f"I5: {node.node_id} leads with {entry} at {offset}, where "
                    f"{self.committed[offset]} was committed"
                )
        mirror.matched = max(mirror.matched, watermark)
        self.true_watermark = max(self.true_watermark, watermark)
        if is_current and mirror.start < self.told_start:
            self.fail(f"C21: {node.node_id} begins at {mirror.start}, deleted to {self.told_start}")

    def _check_watermark(self, node: ToyNode, leader: Leader) -> None:
        """I12 against what the others really have."""
        for other_id in leader.isr.maximal:
            other = self._cluster.nodes[other_id].replica
            if other is not None and other.log.flushed_offset < leader.high_watermark:
                self.fail(
                    f"I12: {node.node_id} has the watermark {leader.high_watermark}, and "
                    f"{other_id} only {other.log.flushed_offset}"
                )

    def _check_replica(self, node: ToyNode) -> None:
        """I5 for followers, I6 and I7 for whoever may be elected."""
        assert node.replica is not None
        mirror, limit = self._mirrors[node.node_id], int(node.replica.high_watermark)
        if node.node_id in self._cluster.controller.candidates:
            limit = self.true_watermark
            if mirror.end < limit:
                self.fail(f"I7: {node.node_id} may be elected and ends at {mirror.end} < {limit}")
        for offset in range(max(mirror.matched, mirror.start), limit):
            entry, known = mirror.entries[offset], self.committed.get(offset)
            if known is not None and known != entry:
                self.fail(f"I6: {node.node_id} has {entry} at {offset}, committed was {known}")
        mirror.matched = max(mirror.matched, limit)

    # --- the end ------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """All replicas are in sync and equal, and everything is committed."""
        cluster = self._cluster
        state = cluster.controller.state
        leader = cluster.nodes[state.leader].leader if state.leader in cluster.nodes else None
        if leader is None or len(state.isr) < len(cluster.nodes) or cluster.waiting:
            return False
        end = leader.log.log_end_offset
        replicas = [node.replica for node in cluster.nodes.values()]
        if any(
            r is None or r.high_watermark < end or r.log.log_end_offset != end for r in replicas
        ):
            return False
        mirrors = [self._mirrors[node] for node in cluster.nodes]
        start = max(mirror.start for mirror in mirrors)
        for mirror in mirrors:
            for offset in range(start, end):
                if mirror.entries[offset] != mirrors[0].entries[offset]:
                    self.fail(f"I18: the replicas differ at {offset}")
        for offset, value in self.acked.items():
            if self.committed.get(offset, (0, -1))[1] != value:
                self.fail(f"lost: {value} was acknowledged at {offset}")
        return True

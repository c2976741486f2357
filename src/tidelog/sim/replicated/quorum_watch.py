"""I2: what must be true of the metadata log on all nodes at once, whoever leads the quorum.

Nobody ever believes in two leaders of one epoch (election safety); what is committed is the same
record everywhere and for ever (state machine safety), told by the epoch it was written in, since
records of one offset and one epoch are one leader's; and whoever leads has all of it (leader
completeness). Nobody takes office while another is certain to be the only one (what a controller
grants to its own node rests on that), but for a moment that the next one waits for the last.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.node import Node
from tidelog.broker.quorum_journal import QuorumJournal
from tidelog.controller.sessions import FORMER_SHARE
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import Host, Life


def quorum_of(node: Node) -> QuorumJournal:
    """A member's replica of the metadata log."""
    journal = node.state.journal
    assert isinstance(journal, QuorumJournal)
    return journal


class QuorumWatch:
    """Of one run. `look` is called after steps; `find` hears of what is wrong."""

    def __init__(self, cluster: Cluster, find: Callable[[str, str], None]) -> None:
        self._cluster = cluster
        self._find = find
        self._leaders: dict[LeaderEpoch, NodeId] = {}
        self._committed: dict[int, LeaderEpoch] = {}
        self.end = Offset(0)
        """As far as anybody ever knew the metadata to be committed."""
        self._end_epoch = LeaderEpoch(0)
        """In which epoch somebody last found more of it committed. A leader of an earlier one may
        not know yet that it is none any more, and lacks the rest rightly."""
        self._seen: dict[NodeId, tuple[int, Offset]] = {}
        """By node: in which of its lives, and how far, it was looked at."""
        self._newest_office = LeaderEpoch(0)

    def look(self, host: Host, life: Life) -> None:
        journal, node_id = quorum_of(life.node), host.node_id
        leader_id, epoch = journal.leader_id, journal.epoch
        if leader_id is not None:
            known = self._leaders.setdefault(epoch, leader_id)
            if known != leader_id:
                text = f"nodes {known} and {leader_id} both lead epoch {epoch} of the metadata"
                self._find("I2", text)
            is_newest = leader_id == node_id and epoch >= self._end_epoch
            if is_newest and journal.log.log_end_offset < self.end:
                text = f"node {node_id} leads the metadata in epoch {epoch} without all of it"
                self._find("I2", f"{text}: {self.end} was committed")
        if journal.is_active and epoch > self._newest_office:
            self._newest_office = epoch
            self._check_rivals(host, epoch)
        number, before = self._seen.get(node_id, (-1, Offset(0)))
        committed = journal.committed_offset
        if number != life.number:
            before = Offset(0)
        if committed > before:
            self._compare(host, life, before=before)
            self._seen[node_id] = (life.number, committed)

    def _check_rivals(self, host: Host, epoch: LeaderEpoch) -> None:
        for other in self._cluster.hosts.values():
            if other is host or other.life is None:
                continue
            until_ms = quorum_of(other.life.node).office_until_ms()
            if until_ms is None:
                continue
            left_ms = until_ms - other.clock.now(self._cluster.schedule.now_ms).monotonic_ms
            settings = other.life.node.state.config.settings
            if left_ms > FORMER_SHARE * settings.broker_session_timeout_ms:
                text = f"node {host.node_id} took office in epoch {epoch}, and node"
                self._find("I2", f"{text} {other.node_id} is certain of its own for {left_ms} ms")

    def _compare(self, host: Host, life: Life, *, before: Offset) -> None:
        journal = quorum_of(life.node)
        log = journal.log
        for offset in range(max(before, log.log_start_offset), journal.committed_offset):
            epoch = log.epochs.epoch_of(Offset(offset))
            known = self._committed.setdefault(offset, epoch)
            if known != epoch:
                self._find(
                    "I2",
                    f"metadata offset {offset} was committed in epoch {known}, and node "
                    f"{host.node_id} has it in epoch {epoch}",
                )
                return
        if journal.committed_offset > self.end:
            self.end, self._end_epoch = journal.committed_offset, journal.epoch

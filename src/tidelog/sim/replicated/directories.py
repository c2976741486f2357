"""What may become of a node's directory while the node is down: wiped, replaced by an old copy, or
with flipped bits. And when it may: a promise to keep what was acknowledged needs a copy to keep.

The rule, looked at in the moment before the node starts again, and for one node at a time:

- The other nodes that run agree on the metadata's epoch and leader, and have all of it durably; so
  many of them vote that they are a majority without it; and the node knows of no later epoch. A
  voter that forgets its log or its vote counts twice otherwise, and no quorum survives that.
- Of every partition the node has, another member of the ISR runs and has all that was committed.
- Where one member in sync is enough (`min.insync.replicas=1`), the cluster has noticed that the
  node is down: it is fenced, and not in the ISR. Else it might outlast the other one there, and
  nobody can tell that it is the wrong one of the two.

Elsewhere whether the cluster has noticed is left open: the node may come back wiped within its
session, while it still counts as a member in sync. Bits are flipped only where the cluster has
noticed, and somebody reads them in every life as soon as the log is open (`_scrub`), so that nobody
who may be elected has damage that it does not know of: the node must mend what it has found.

An old copy is of an earlier life. One of the same life can't be told from a directory that lost
nothing (the broker epoch in it is the newest), neither here nor in Kafka.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

from tidelog.broker.node import Node
from tidelog.metadata.image import PartitionState
from tidelog.metadata.journal import DIRECTORY as METADATA
from tidelog.metadata.vote_file import VoteFile
from tidelog.model.ids import NodeId, Offset, PartitionKey
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import Host, Life
from tidelog.sim.images import DirectoryImage
from tidelog.sim.replicated.invariants import Invariants
from tidelog.sim.replicated.quorum_watch import quorum_of
from tidelog.sim.survey import partition_directories, plant_bytes_behind, plant_damage

WIPED, OLD, DAMAGED = "wiped disk", "old disk", "damaged data"
DISK_LOSSES = (WIPED, OLD, DAMAGED)

_COPY_RATE = 0.5
MOST_FLIPS = 3
LITTERED_SEEDS = 0.5
LITTERED_STARTS = 1.0


class Directories:
    """Of one run: who is to lose what, and the copies that were put aside."""

    def __init__(self, cluster: Cluster, invariants: Invariants, random: Random) -> None:
        self._cluster = cluster
        self._invariants = invariants
        self._random = random
        self._litter = cluster.stream("bytes behind segments")
        self._litters = self._litter.random() < LITTERED_SEEDS
        self._fates: dict[NodeId, str] = {}
        self._copies: dict[NodeId, DirectoryImage] = {}
        self._flipped: dict[NodeId, dict[tuple[PartitionKey, Offset], int]] = {}
        """By node: where, and in which life somebody last read it."""
        self.counted: Counter[str] = Counter()
        for host in cluster.hosts.values():
            host.on_step.append(partial(self._scrub, host))

    def condemn(self, host: Host, kind: str) -> None:
        """The directory of a node that is down is to suffer before the next start."""
        assert not host.is_up
        self._fates[host.node_id] = kind

    def is_condemned(self, host: Host) -> bool:
        return host.node_id in self._fates

    def pardon(self, host: Host) -> None:
        self._fates.pop(host.node_id, None)

    def put_aside(self, host: Host) -> None:
        """Now and then, while the node is down, somebody copies its directory."""
        if self._random.random() < _COPY_RATE:
            self._copies[host.node_id] = host.disk.copy()

    def litter(self, host: Host) -> None:
        """Now and then, while the node is down, segments grow behind their last batch: no record is
        harmed, so it may happen to any node at any time."""
        if not self._litters or self._litter.random() >= LITTERED_STARTS:
            return
        for directory in partition_directories(host.disk):
            planted = plant_bytes_behind(host.disk, directory, self._litter)
            if planted is not None:
                self.counted["bytes behind a segment"] += 1
                text = f"{len(planted.data)} bytes behind {planted.path}"
                self._cluster.trace.say("damage", text)

    def strike(self, host: Host) -> bool:
        """Do what is to be done, if it may be; whether it is settled."""
        kind = self._fates[host.node_id]
        others = self._others(host)
        if not others or not self._is_quorum_whole(others):
            return False
        if VoteFile(host.disk, METADATA).load().epoch > quorum_of(others[0]).epoch:
            return False
        image = others[0].state.image
        states = [
            state
            for state in image.partitions()
            if host.node_id in state.replicas and state.name.topic not in self._invariants.spared
        ]
        if not all(self._has_another(state, others) for state in states):
            return False
        is_unnoticed = image.is_usable(host.node_id)
        if any(
            image.min_isr(state) < 2 and (is_unnoticed or _relies_on(host.node_id, state))
            for state in states
        ):
            return False
        if kind != DAMAGED:
            self._flipped.pop(host.node_id, None)
        if kind == WIPED:
            host.disk.become(DirectoryImage())
        elif kind == OLD:
            copy = self._copies.pop(host.node_id, None)
            if copy is not None:
                host.disk.become(copy)
        elif not self._flip(host, states, others):
            return False
        self._note(kind, host)
        return True

    def _note(self, kind: str, host: Host) -> None:
        self.counted[kind] += 1
        self._cluster.trace.say("directory", f"{kind} at {host.endpoint}")
        del self._fates[host.node_id]

    # --- the rule ------------------------------------------------------------------------------

    def _others(self, host: Host) -> list[Node]:
        """The other nodes, as far as they run and serve."""
        lives = [each.life for each in self._cluster.hosts.values() if each is not host]
        return [life.node for life in lives if life is not None and life.node.is_serving]

    def _is_quorum_whole(self, nodes: list[Node]) -> bool:
        journals = [quorum_of(node) for node in nodes]
        voters = [n for n in self._cluster.hosts if journals[0].voter_endpoint(n) is not None]
        voting = [node for node in nodes if node.state.config.node_id in voters]
        if 2 * len(voting) <= len(voters):
            return False
        ends = {journal.log.log_end_offset for journal in journals}
        ends |= {journal.log.flushed_offset for journal in journals}
        ends |= {journal.committed_offset for journal in journals}
        beliefs = {(journal.epoch, journal.leader_id) for journal in journals}
        is_led = any(journal.is_active for journal in journals)
        return len(ends) == 1 and len(beliefs) == 1 and is_led

    def _has_another(self, state: PartitionState, others: list[Node]) -> bool:
        return any(
            node.state.config.node_id in state.isr and self._has_all(node, state) for node in others
        )

    def _has_all(self, node: Node, state: PartitionState) -> bool:
        held = node.state.replicas.by_key.get(state.key)
        committed = self._invariants.true_watermark(state.key)
        return (
            held is not None
            and held.log.flushed_offset >= committed
            and held.log.first_damaged_offset() is None
        )

    # --- damage --------------------------------------------------------------------------------

    def _flip(self, host: Host, states: list[PartitionState], others: list[Node]) -> bool:
        """Bits of a node that nobody relies on for anything."""
        if any(_relies_on(host.node_id, state) for state in states):
            return False
        for state in states:
            found = (node.state.replicas.by_key.get(state.key) for node in others)
            directory = next(held.log.directory.path for held in found if held is not None)
            for _ in range(self._random.randint(0, MOST_FLIPS)):
                planted = plant_damage(host.disk, directory, self._random)
                if planted is not None:
                    self.counted["bit flipped"] += 1
                    found_at = (state.key, Offset(planted.first_offset))
                    self._flipped.setdefault(host.node_id, {})[found_at] = 0
                    self._cluster.trace.say("damage", f"{planted.path} at {planted.position}")
        return True

    def note_damage(self, host: Host, key: PartitionKey, offset: Offset) -> None:
        """Something else has damaged the log there: it is to be read like what was flipped."""
        self._flipped.setdefault(host.node_id, {})[key, offset] = 0

    def _scrub(self, host: Host, life: Life) -> None:
        """Read what was flipped, as soon as the node has opened it."""
        flipped = self._flipped.get(host.node_id)
        if flipped is None:
            return
        for (key, offset), number in flipped.items():
            replica = life.node.state.replicas.by_key.get(key)
            if replica is None or number == life.number:
                continue
            flipped[key, offset] = life.number
            log = replica.log
            if log.log_start_offset <= offset < log.log_end_offset:
                end = log.log_end_offset
                log.read(offset, max_bytes=1, limit_offset=end, at_least_one=True)
                host.reports += replica.take_reports()


def _relies_on(node_id: NodeId, state: PartitionState) -> bool:
    """The node may be elected."""
    return node_id in (*state.isr, *state.elr)

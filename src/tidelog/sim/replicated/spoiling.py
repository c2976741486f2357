"""Damage to what was fsynced, in the moment of a crash: one node's files are spoiled while it, some
or all nodes are down, and nobody has noticed anything yet.

Unlike the flips of `directories.py`, these hit a node that the cluster relies on, anywhere in its
partitions' logs: also what was flushed a moment ago, above the mark. Who starts first and who is
elected is left to chance. Nothing may be lost, since every record that was committed has a sound
copy on another member of the ISR (`_is_safe`); only one node of a run is ever spoiled. And
nobody may decide that one copy in sync is enough (`ClusterRun.least_in_sync`): the spoiled node
could have committed more when it was alone in sync, so it would be the only one that may lead, and
no follower would get past its damage.

After a power failure nobody can tell the very last batch that was flushed from one that was not, if
no other lies behind it. So that one is spared then; and after a kill what the log has noted of its
flushes is taken to have reached the disk before the power fails as well.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

from tidelog.broker.node import Node
from tidelog.log.paths import FLUSHED
from tidelog.metadata.image import PartitionState
from tidelog.model.ids import Offset, PartitionKey
from tidelog.partition.replica import Replica
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import CrashKind, Host
from tidelog.sim.images import FileImage
from tidelog.sim.replicated.configuration import Plan
from tidelog.sim.replicated.directories import Directories
from tidelog.sim.replicated.invariants import Invariants
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.survey import flip, headers_of
from tidelog.wire.batch import BatchHeader

SHARE = 0.3
"""Of the runs in which no node loses its directory otherwise."""

_EVERY_MS = 500.0
_MOST_SPOILED = 3
_MOST_ZEROS = 700
_EPOCH_BYTES = range(12, 16)


class Place(NamedTuple):
    """A flushed batch in a file of the log of a partition."""

    key: PartitionKey
    path: str
    position: int
    header: BatchHeader
    is_last: bool
    """No flushed batch lies behind it."""


class Spoiler:
    """Of one run. `counted` says what was done, and how often."""

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        invariants: Invariants,
        directories: Directories,
    ) -> None:
        self._cluster = cluster
        self._invariants = invariants
        self._directories = directories
        self._random: Random = cluster.stream("spoiling")
        self._victim = self._random.choice(list(cluster.hosts.values()))
        is_apt = plan.least_in_sync == 1 and plan.min_insync > 1 and not plan.is_hasty
        self.is_on = self._random.random() < SHARE and is_apt and cluster.zookeeper is None
        self.counted: Counter[str] = Counter()
        self.is_over = False

    def torment(self) -> Script[None]:
        """Now and then, as long as there is chaos."""
        while self.is_on and not self.is_over:
            yield Pause(self._random.expovariate(1.0 / _EVERY_MS))
            if not self.is_over:
                self._strike()

    def _strike(self) -> None:
        random, hosts = self._random, list(self._cluster.hosts.values())
        victim = self._victim
        how: CrashKind = random.choice(("kill", "kill", "power"))
        places = self._places(victim, spares_last=how == "power")
        others = [host for host in hosts if host is not victim]
        falling = [victim, *random.sample(others, random.choice((0, 1, len(others))))]
        if not places:
            return
        for host in falling:
            if host.is_up:
                host.crash(how)
        last = {place.key: place.path for place in places}
        for place in random.sample(places, min(len(places), random.randint(1, _MOST_SPOILED))):
            is_closed = place.path != last[place.key]
            self._spoil(victim, place, may_shorten=how == "kill" or is_closed)
            if how == "kill":
                self._write_back(victim, place)

    # --- where, and whether it may be ------------------------------------------------------------

    def _places(self, victim: Host, *, spares_last: bool) -> list[Place]:
        """The flushed batches of all partitions whose records are safe elsewhere."""
        if victim.life is None or not victim.life.node.is_serving:
            return []
        lives = [host.life for host in self._cluster.hosts.values() if host is not victim]
        others = [life.node for life in lives if life is not None and life.node.is_serving]
        found: list[Place] = []
        for replica in victim.life.node.state.replicas.by_key.values():
            state = self._invariants.image.partition(replica.key)
            if state is not None and self._is_safe(state, others):
                found += self._flushed_batches(victim, replica)
        return [place for place in found if not (spares_last and place.is_last)]

    def _is_safe(self, state: PartitionState, others: list[Node]) -> bool:
        committed = self._invariants.true_watermark(state.key)
        for node in others:
            held = node.state.replicas.by_key.get(state.key)
            if (
                held is not None
                and node.state.config.node_id in state.isr
                and held.log.flushed_offset >= committed
                and held.log.first_damaged_offset() is None
            ):
                return True
        return False

    def _flushed_batches(self, victim: Host, replica: Replica) -> list[Place]:
        log, found = replica.log, []
        directory, flushed = log.directory.path, log.flushed_offset
        for path, image in victim.disk.files(below=directory, ending=".log").items():
            position = 0
            for header in headers_of(bytes(image.cached)):
                if header is None or header.next_offset > flushed:
                    break
                if header.base_offset >= log.log_start_offset:
                    is_last = header.next_offset == flushed
                    found.append(Place(replica.key, path, position, header, is_last))
                position += header.size
        return found

    # --- what is done ----------------------------------------------------------------------------

    def _spoil(self, victim: Host, place: Place, *, may_shorten: bool) -> None:
        """What is cut off or gone is missed only if something lies behind it."""
        image = victim.disk.files().get(place.path)
        if image is None or len(image.cached) < place.position + place.header.size:
            return  # an earlier blow has taken it
        kinds = ["bit flipped", "bit flipped", "zeros"]
        if may_shorten:
            kinds += ["file cut", "file lost"]
        kind = self._random.choice(kinds)
        if kind == "bit flipped":
            self._flip(image, place)
        elif kind == "zeros":
            self._overwrite(image, place)
        elif kind == "file cut":
            cut = place.position + self._random.randrange(place.header.size)
            for data in (image.cached, image.durable):
                del data[cut:]
            image.pending = []
        else:
            victim.disk.take_away(place.path)
        self.counted[f"spoiled: {kind}"] += 1
        self._cluster.trace.say("spoiled", f"{kind}: {place.path} from byte {place.position}")
        self._directories.note_damage(victim, place.key, Offset(place.header.base_offset))

    def _write_back(self, victim: Host, place: Place) -> None:
        path = f"{place.path.rpartition('/')[0]}/{FLUSHED}"
        image = victim.disk.files().get(path)
        if image is not None:
            image.make_durable(victim.disk.next_sequence())

    def _flip(self, image: FileImage, place: Place) -> None:
        bytes_of_it = [n for n in range(place.header.size) if n not in _EPOCH_BYTES]
        position = place.position + self._random.choice(bytes_of_it)
        flip(image, position, 1 << self._random.randrange(8))

    def _overwrite(self, image: FileImage, place: Place) -> None:
        """Zeros, within one batch: a batch's end is not known to what comes behind it."""
        start = place.position + self._random.randrange(place.header.size)
        size = min(self._random.randint(1, _MOST_ZEROS), place.position + place.header.size - start)
        for data in (image.cached, image.durable):
            stop = min(start + size, len(data))
            if start < stop:
                data[start:stop] = bytes(stop - start)

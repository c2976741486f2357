"""The one who breaks things in a cluster, and the one who starts nodes again.

Whatever is done, every acknowledged record keeps a durable copy: a disk may forget what was not
synced, refuse to take more, or be slow; and what it holds is taken away only by the rule of
`directories.py`.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tidelog.sim.cluster import Cluster
from tidelog.sim.host import Host
from tidelog.sim.network import Direction, between
from tidelog.sim.replicated.configuration import PLOTS, ZOOKEEPER_FAULTS, Plan
from tidelog.sim.replicated.directories import DISK_LOSSES, OLD, Directories
from tidelog.sim.replicated.invariants import Invariants
from tidelog.sim.replicated.plots import Plots
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.wall_clocks import WallClocks

_LOSS_TRIES = 60
"""So often the supervisor looks whether a directory may be lost now."""


class Nemesis:
    """Faults of one run."""

    def __init__(
        self, cluster: Cluster, plan: Plan, invariants: Invariants, wall_clocks: WallClocks
    ) -> None:
        self._cluster = cluster
        self._wall_clocks = wall_clocks
        self._plan = plan
        self._random: Random = cluster.stream("faults")
        self.directories = Directories(cluster, invariants, cluster.stream("directories"))
        self.plots = Plots(cluster, invariants, self.directories, self._random)
        self.counted: Counter[str] = Counter()
        self.is_over = False

    def supervise(self, host: Host) -> Script[None]:
        """Start the node whenever it is down: also when all is healed, one that was asked to stop
        may only just have done so."""
        while True:
            if not host.is_up and host not in self.plots.held:
                yield Pause(0.0 if self.is_over else self._random.uniform(0.0, 600.0))
                yield from self._lose_directory(host)
                if not host.is_up and host not in self.plots.held:
                    if OLD in self._plan.faults:
                        self.directories.put_aside(host)
                    self.directories.litter(host)
                    host.start()
            yield Pause(30.0)

    def _lose_directory(self, host: Host) -> Script[None]:
        """Wait for a moment in which the directory may be lost, if it is to be; not for long."""
        for _ in range(_LOSS_TRIES):
            if self.is_over or host.is_up or not self.directories.is_condemned(host):
                break
            if self.directories.strike(host):
                break
            yield Pause(20.0)
        self.directories.pardon(host)

    def torment(self) -> Script[None]:
        """One fault after the other, sometimes before the last one is over."""
        random, plan = self._random, self._plan
        while not self.is_over:
            yield Pause(random.expovariate(1.0 / plan.fault_every_ms))
            if self.is_over:
                return
            kind = random.choice(plan.faults)
            host = random.choice(list(self._cluster.hosts.values()))
            self._cluster.trace.say("fault", f"{kind} at {host.endpoint}")
            self.counted[kind] += 1
            self._cluster.schedule.start(self._strike(kind, host))

    def heal(self) -> None:
        """No more faults; every node runs, and none is left with a disk that has failed it."""
        self.is_over = True
        self.plots.end()
        self._cluster.network.heal()
        if self._cluster.zookeeper is not None:
            self._cluster.zookeeper.cuts.clear()
            self._cluster.zookeeper.come_back()
        for host in self._cluster.hosts.values():
            host.thaw()
            host.disk.faults.heal()
            host.disk.page_cache.heal()
            host.flush_stall_ms = 0.0
            if host.life is not None and _has_failed(host):
                host.crash("kill")
            if not host.is_up:
                host.start()

    def _strike(self, kind: str, host: Host) -> Script[None]:
        random = self._random
        if kind == "kill one":
            host.crash("kill")
        elif kind == "power of one":
            host.crash("power")
        elif kind == "power of all":
            for each in self._cluster.hosts.values():
                each.crash("power")
        elif kind == "clean stop":
            host.stop()
        elif kind == "quick restart":
            host.crash(random.choice(("kill", "power")))
            host.start()
        elif kind in DISK_LOSSES:
            host.crash(random.choice(("kill", "power")))
            self.directories.condemn(host, kind)
        elif kind in PLOTS:
            yield from self.plots.play(kind)
        elif kind == "clock jump":
            self._wall_clocks.jump(host, random.choice((-1.0, 1.0)) * random.uniform(0.0, 1e7))
        elif kind == "freeze":
            host.freeze()
            yield Pause(random.uniform(20.0, 1_500.0))
            host.thaw()
        elif kind in ("isolate", "cut one way", "split"):
            yield from self._cut(self._directions(kind, host))
        elif kind == "network storm":
            yield from self._storm()
        elif kind in ZOOKEEPER_FAULTS:
            yield from self._trouble_zookeeper(kind, host)
        else:
            yield from self._trouble_disk(kind, host)

    def _directions(self, kind: str, host: Host) -> list[Direction]:
        ids = list(self._cluster.hosts)
        if kind == "cut one way":
            one, other = self._random.sample(ids, 2)
            return [(one, other)]
        inside = [node_id for node_id, each in self._cluster.hosts.items() if each is host]
        if kind == "split":
            inside = self._random.sample(ids, self._random.randint(1, len(ids) - 1))
        return between(inside, [node_id for node_id in ids if node_id not in inside])

    def _cut(self, directions: list[Direction]) -> Script[None]:
        self._cluster.network.cut(directions)
        yield Pause(self._random.choice((50.0, 300.0, 1_500.0)))
        self._cluster.network.mend(directions)

    def _trouble_disk(self, kind: str, host: Host) -> Script[None]:
        random, faults = self._random, host.disk.faults
        if kind == "slow flush":
            host.flush_stall_ms = random.choice((50.0, 500.0))
            yield Pause(random.uniform(50.0, 800.0))
            host.flush_stall_ms = 0.0
        elif kind == "disk full":
            faults.capacity_bytes = host.disk.used_bytes() + random.choice((0, 100, 1_000))
            yield Pause(random.uniform(50.0, 800.0))
            faults.capacity_bytes = None
        else:
            faults.sync_error_rate = random.choice((0.2, 1.0))
            yield Pause(random.uniform(5.0, 200.0))
            faults.sync_error_rate = 0.0
            if not self.is_over:
                host.crash(random.choice(("kill", "power")))

    def _trouble_zookeeper(self, kind: str, host: Host) -> Script[None]:
        random, service = self._random, self._cluster.zookeeper
        assert service is not None
        if kind == "zookeeper away":
            service.go_away()
            yield Pause(random.choice((50.0, 400.0, 2_000.0)))
            service.come_back()
        elif kind == "zookeeper cut":
            ids = random.sample(list(self._cluster.hosts), random.choice((1, 1, 2)))
            service.cuts.update(dict.fromkeys(ids))
            yield Pause(random.choice((100.0, 500.0, 2_000.0)))
            for node_id in ids:
                service.cuts.pop(node_id, None)
        elif kind == "zookeeper reset":
            for link in list(service.links.values()):
                if random.random() < 0.7:
                    link.reset()
        else:
            service.expire(service.links[host.node_id].session)

    def _storm(self) -> Script[None]:
        faults, random = self._cluster.network.faults, self._random
        faults.spike_rate = random.choice((0.0, 0.1, 0.5))
        faults.spike_ms = random.choice((10.0, 200.0))
        faults.reset_rate = random.choice((0.0, 0.02, 0.1))
        faults.hold_rate = random.choice((0.0, 0.02))
        faults.hold_ms = random.choice((100.0, 1_000.0))
        yield Pause(random.uniform(100.0, 1_000.0))
        faults.heal()


def _has_failed(host: Host) -> bool:
    assert host.life is not None
    faults = host.faults_of(host.life.number)
    return bool(faults["write error"] or faults["fsync error"] or faults["read error"])

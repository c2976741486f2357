"""Virtual time and everything that lives in it: hosts, the network between, clients, a history.

Hosts by node id, one schedule, one network, and streams of random numbers that are named after what
they decide. A cluster of one is what `sim.run` torments, one of several `sim.replicated`.
"""

from __future__ import annotations

from random import Random

from tidelog.model.ids import Endpoint, NodeId
from tidelog.sim.history import History
from tidelog.sim.host import Host, HostOptions
from tidelog.sim.network import Network
from tidelog.sim.schedule import Schedule
from tidelog.sim.trace import Trace
from tidelog.sim.witness import Witness
from tidelog.sim.workload.world import World
from tidelog.sim.zookeeper import ZooKeeperService

_NS_PER_MS = 1_000_000


class Cluster:
    """All of one run."""

    def __init__(self, seed: int, *options: HostOptions) -> None:
        uses_zookeeper = any(each.config.uses_zookeeper for each in options)
        self._seed = seed
        self.schedule = Schedule()
        self.trace = Trace(lambda: self.schedule.now_ms)
        self.history = History(lambda: int(self.schedule.now_ms * _NS_PER_MS))
        self.network = Network(self.schedule, self.stream("network"))
        self.zookeeper: ZooKeeperService | None = None
        if uses_zookeeper:
            self.zookeeper = ZooKeeperService(self.schedule, self.stream("zookeeper"))
        self.hosts: dict[NodeId, Host] = {
            each.config.node_id: self._make_host(each) for each in options
        }
        self.world = World(
            self.schedule,
            self.network,
            self.host,
            history=self.history,
            random=self.stream("workload"),
        )
        self.witness: Witness | None = None
        if len(options) == 1:  # of a log that followers cut, it would remember too much
            self.witness = Witness(self.host, self.world.findings.append)

    def _make_host(self, options: HostOptions) -> Host:
        node_id = options.config.node_id
        return Host(
            self.network,
            self.trace,
            options,
            find_peer=self._at,
            seed_of=lambda concern: self.stream(f"{concern} of host {node_id}"),
            zookeeper=self.zookeeper,
        )

    @property
    def host(self) -> Host:
        """The first host, and the only one of a cluster of one."""
        return next(iter(self.hosts.values()))

    def _at(self, endpoint: Endpoint) -> tuple[NodeId, Host] | None:
        for node_id, host in self.hosts.items():
            if host.endpoint == endpoint:
                return node_id, host
        return None

    def stream(self, concern: str) -> Random:
        """Random numbers for one concern: another concern's use of luck does not disturb it."""
        return self.stream_of(self._seed, concern)

    @staticmethod
    def stream_of(seed: int, concern: str) -> Random:
        return Random(f"{seed}/{concern}")

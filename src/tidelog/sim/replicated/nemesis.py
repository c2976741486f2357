"""The one who breaks things in a cluster, and the one who starts nodes again.

Whatever is done, every acknowledged record keeps a durable copy: a disk may forget what was not
synced, refuse to take more, or be slow; and what it holds is taken away only by the rule of
`directories.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from tidelog.metadata.image import PartitionState
from tidelog.model.ids import NodeId
from tidelog.partition.replica import Replica
from tidelog.quorum.states import State
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import Host
from tidelog.sim.network import Direction
from tidelog.sim.replicated.configuration import (
    LAST_ONE_STANDING,
    PLOTS,
    ZOOKEEPER_FAULTS,
    Plan,
)
from tidelog.sim.replicated.directories import DISK_LOSSES, OLD, WIPED, Directories
from tidelog.sim.replicated.invariants import Invariants
from tidelog.sim.replicated.quorum_watch import quorum_of
from tidelog.sim.schedule import Pause, Script

_LOSS_TRIES = 60
"""So often the supervisor looks whether a directory may be lost now."""
_AWAITED = 80
_MOMENTS = 1_000
_ELECTION_MS = 1_200.0
_LATE_MS = 1_500.0
_RETRY_MS = 30.0
_FORGETTINGS = 200
"""So often voters forget in one such time: each is a whole start of a node."""


class Nemesis:
    """Faults of one run."""

    def __init__(self, cluster: Cluster, plan: Plan, invariants: Invariants) -> None:
        self._cluster = cluster
        self._plan = plan
        self._random: Random = cluster.stream("faults")
        self.directories = Directories(cluster, invariants, cluster.stream("directories"))
        self._invariants = invariants
        self._held: list[Host] = []
        """Who is down and to stay so for a while."""
        self._is_plotting = False
        self.counted: Counter[str] = Counter()
        self.is_over = False

    def supervise(self, host: Host) -> Script[None]:
        """Start the node whenever it is down: also when all is healed, one that was asked to stop
        may only just have done so."""
        while True:
            if not host.is_up and host not in self._held:
                yield Pause(0.0 if self.is_over else self._random.uniform(0.0, 600.0))
                yield from self._lose_directory(host)
                if not host.is_up and host not in self._held:
                    if OLD in self._plan.faults:
                        self.directories.put_aside(host)
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
        self._held = []
        self._cluster.network.heal()
        if self._cluster.zookeeper is not None:
            self._cluster.zookeeper.cuts.clear()
            self._cluster.zookeeper.come_back()
        for host in self._cluster.hosts.values():
            host.thaw()
            host.disk.faults.heal()
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
            yield from self._plot(kind)
        elif kind == "clock jump":
            host.clock.jump(random.choice((-1.0, 1.0)) * random.uniform(0.0, 1e7))
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

    def _disturb_election(self, kind: str) -> Script[None]:
        """On a slow network, so that there are rivals, nobody is controller for long. Whoever has
        just voted is killed and back at once; or whoever has just been elected is killed or cut off
        before it has decided anything."""
        schedule, faults = self._cluster.schedule, self._cluster.network.faults
        delay_ms, faults.delay_ms = faults.delay_ms, (1.0, 60.0)
        until_ms = schedule.now_ms + _ELECTION_MS
        forgetting = 0
        while schedule.now_ms < until_ms and forgetting < _FORGETTINGS and not self.is_over:
            for host in self._cluster.hosts.values():
                if kind == "forgetful voters":
                    forgetting += self._makes_forget(host)
                elif _is_new_leader(host):
                    yield from self._stumble(host)
                elif _is_controller(host) and self._random.random() < 0.02:
                    host.crash("kill")
            yield Pause(2.0)
        if not self.is_over:  # else it is healed already, and quick
            faults.delay_ms = delay_ms

    def _makes_forget(self, host: Host) -> bool:
        """A voter, or now and then the controller, so that there is something to vote on."""
        rate = 0.5 if _quorum_state(host) is State.VOTED else 0.02 if _is_controller(host) else 0.0
        is_struck = self._random.random() < rate
        if is_struck:
            host.crash("kill")
            host.start()
        return is_struck

    def _plot(self, kind: str) -> Script[None]:
        """Faults in a certain order, each at its moment: one such plan at a time."""
        if self._is_plotting:
            return
        self._is_plotting = True
        if kind == LAST_ONE_STANDING:
            yield from self._leave_one()
        elif kind == "early strike":
            yield from self._strike_early()
        elif kind == "late word":
            yield from self._send_late()
        else:
            yield from self._disturb_election(kind)
        self._is_plotting = False

    def _leave_one(self) -> Script[None]:
        """The day that eligible leaders are for (KIP-966). Of the replicas of a partition one goes
        and stays away; another goes and loses its disk; before that one is back, the last one goes.
        In three nodes the rule of `directories` does not allow it."""
        hosts, random = self._cluster.hosts, self._random
        states = self._led_with_two()
        if not states or len(hosts) < 5:
            return
        state = random.choice(states)
        last = hosts[state.leader]
        away, losing = (hosts[node] for node in state.isr if node != state.leader)
        self._held += [away, losing]
        away.crash("kill")
        yield from self._await(lambda: away.node_id not in self._isr_of(state))
        losing.crash(random.choice(("kill", "power")))
        self._held.append(last)
        yield from self._lose_now(losing, random.choice((WIPED, OLD)))
        if not self.is_over:
            last.crash("kill")
        yield from self._await(lambda: losing.life is not None and losing.life.node.is_serving)
        self._release(last)
        self._release(away)

    def _release(self, host: Host) -> None:
        if host in self._held:
            self._held.remove(host)

    def _send_late(self) -> Script[None]:
        """A leader asks for a follower that has caught up, and its word is stranded on the way;
        meanwhile the follower loses its disk, and comes back to the cluster as another, which can't
        reach the leader yet."""
        hosts, random = self._cluster.hosts, self._random
        controller = next((h for h in hosts.values() if _is_controller(h)), None)
        states = [s for s in self._led_with_two() if controller is not hosts[s.leader]]
        if controller is None or not states:
            return
        state = random.choice(states)
        leader = hosts[state.leader]
        late = next(hosts[node] for node in state.isr if hosts[node] not in (leader, controller))
        late.crash("kill")
        yield from self._await(lambda: late.node_id not in self._isr_of(state))
        if late.life is None and not self.is_over:
            late.start()
        if not (yield from self._is_asked_for(leader, late, state)):
            return
        assert leader.life is not None
        until_ms = self._cluster.schedule.now_ms + _LATE_MS
        stranded = leader.life.links.strand("control", until_ms)
        self._held.append(late)
        late.crash("kill")
        yield from self._lose_now(late, WIPED)
        way = [(late.node_id, leader.node_id)]
        self._cluster.network.cut(way)
        if late.life is None and not self.is_over:
            late.start()
        yield from self._await(lambda: late.life is not None and late.life.node.is_serving)
        for connection in stranded:
            connection.to_node.release()
        yield Pause(_RETRY_MS)
        self._cluster.network.mend(way)

    def _lose_now(self, host: Host, kind: str) -> Script[None]:
        """As soon as it may be, and not by the one who starts nodes."""
        self.directories.condemn(host, kind)
        yield from self._await(
            lambda: not self.directories.is_condemned(host) or self.directories.strike(host)
        )
        self.directories.pardon(host)
        self._release(host)

    def _is_asked_for(self, leader: Host, late: Host, state: PartitionState) -> Script[bool]:
        """Wait for the moment in which the leader asks that the other be in sync."""
        for _ in range(_MOMENTS):
            replica = _replica_at(leader, state)
            if self.is_over or replica is None or replica.leader is None:
                return False
            asked = replica.leader.isr.in_flight
            if asked is not None and late.node_id in asked.nodes:
                return True
            yield Pause(0.5)
        return False

    def _strike_early(self) -> Script[None]:
        """The leader dies in the moment in which a replica that was away has nearly caught up: it
        has what the next leader knows to be committed, but not all that was."""
        hosts, random = self._cluster.hosts, self._random
        states = self._led_with_two()
        if not states:
            return
        state = random.choice(states)
        heir, late = (hosts[node] for node in state.isr if node != state.leader)
        late.crash("kill")
        yield from self._await(lambda: late.node_id not in self._isr_of(state))
        if late.life is None and not self.is_over:
            late.start()
        for _ in range(_MOMENTS):
            if self.is_over or late.node_id in self._isr_of(state):
                return
            ahead, behind = _replica_at(heir, state), _replica_at(late, state)
            if ahead is not None and behind is not None:
                known, ends = ahead.high_watermark, ahead.log.log_end_offset
                if known <= behind.log.log_end_offset < ends and behind.follower is not None:
                    hosts[state.leader].crash("kill")
                    return
            yield Pause(0.5)

    def _led_with_two(self) -> list[PartitionState]:
        """The partitions with a leader and two more in sync."""
        return [
            state
            for state in self._invariants.image.partitions()
            if len(state.isr) == 3 and state.leader in state.isr
        ]

    def _isr_of(self, state: PartitionState) -> tuple[NodeId, ...]:
        found = self._invariants.image.partition(state.key)
        return () if found is None else found.isr

    def _await(self, is_reached: Callable[[], bool]) -> Script[None]:
        """For a while, or until it is so."""
        for _ in range(_AWAITED):
            if self.is_over or is_reached():
                return
            yield Pause(20.0)

    def _stumble(self, host: Host) -> Script[None]:
        luck = self._random.random()
        if luck < 0.3:
            host.crash(self._random.choice(("kill", "power")))
        elif luck < 0.6:
            directions = self._directions("isolate", host)
            self._cluster.network.cut(directions)
            yield Pause(self._random.uniform(20.0, 200.0))
            self._cluster.network.mend(directions)

    def _directions(self, kind: str, host: Host) -> list[Direction]:
        ids = list(self._cluster.hosts)
        if kind == "cut one way":
            one, other = self._random.sample(ids, 2)
            return [(one, other)]
        inside = [node_id for node_id, each in self._cluster.hosts.items() if each is host]
        if kind == "split":
            inside = self._random.sample(ids, self._random.randint(1, len(ids) - 1))
        return _between(inside, [node_id for node_id in ids if node_id not in inside])

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


def _replica_at(host: Host, state: PartitionState) -> Replica | None:
    return None if host.life is None else host.life.node.state.replicas.by_key.get(state.key)


def _quorum_state(host: Host) -> State | None:
    if host.life is None:
        return None
    return State(quorum_of(host.life.node).describe()["state"])


def _is_controller(host: Host) -> bool:
    return host.life is not None and quorum_of(host.life.node).is_active


def _is_new_leader(host: Host) -> bool:
    """It was elected, and has not taken office yet."""
    is_leader = _quorum_state(host) is State.LEADER
    return is_leader and not _is_controller(host)


def _between(left: list[NodeId], right: list[NodeId]) -> list[Direction]:
    return [pair for a in left for b in right for pair in ((a, b), (b, a))]


def _has_failed(host: Host) -> bool:
    assert host.life is not None
    faults = host.faults_of(host.life.number)
    return bool(faults["write error"] or faults["fsync error"] or faults["read error"])

"""Several faults, each at its moment: what chance alone would hardly bring about.

A plot looks at the nodes, so it knows when to strike. Most of them are for one safeguard each,
whose absence nothing else in a cluster would show (`sim/ablations.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tidelog.metadata.image import PartitionState
from tidelog.model.ids import NodeId
from tidelog.partition.replica import Replica
from tidelog.quorum.states import State
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import Host
from tidelog.sim.network import between
from tidelog.sim.replicated.configuration import EARLY_STRIKE, LAST_ONE_STANDING, LATE_WORD
from tidelog.sim.replicated.directories import OLD, WIPED, Directories
from tidelog.sim.replicated.invariants import Invariants
from tidelog.sim.replicated.quorum_watch import quorum_of
from tidelog.sim.schedule import Pause, Script

_AWAITED = 80
_MOMENTS = 1_000
_ELECTION_MS = 1_200.0
_LATE_MS = 1_500.0
"""Longer than it takes a node to lose its disk and be let in again."""
_HEEDED_MS = 30.0
"""Until whatever a word that came late leads to has happened."""
_FORGETTINGS = 200
"""So often voters forget in one such time: each is a whole start of a node."""


class Plots:
    """Of one run, one at a time."""

    def __init__(
        self, cluster: Cluster, invariants: Invariants, directories: Directories, random: Random
    ) -> None:
        self._cluster = cluster
        self._invariants = invariants
        self._directories = directories
        self._random = random
        self._is_on = False
        self.held: list[Host] = []
        """Who is down, or soon will be, and is not to be started by anybody else."""
        self.is_over = False

    def end(self) -> None:
        """What is on comes to nothing."""
        self.is_over = True
        self.held = []

    def play(self, kind: str) -> Script[None]:
        if self._is_on:
            return
        self._is_on = True
        if kind == LAST_ONE_STANDING:
            yield from self._leave_one()
        elif kind == EARLY_STRIKE:
            yield from self._strike_early()
        elif kind == LATE_WORD:
            yield from self._send_late()
        else:
            yield from self._disturb_election(kind)
        self._is_on = False

    # --- elections of the controller -------------------------------------------------------------

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

    def _stumble(self, host: Host) -> Script[None]:
        luck = self._random.random()
        if luck < 0.3:
            host.crash(self._random.choice(("kill", "power")))
        elif luck < 0.6:
            others = [node_id for node_id in self._cluster.hosts if node_id != host.node_id]
            directions = between([host.node_id], others)
            self._cluster.network.cut(directions)
            yield Pause(self._random.uniform(20.0, 200.0))
            self._cluster.network.mend(directions)

    # --- replicas --------------------------------------------------------------------------------

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
        self.held += [away, losing]
        away.crash("kill")
        yield from self._await(lambda: away.node_id not in self._isr_of(state))
        losing.crash(random.choice(("kill", "power")))
        self.held.append(last)
        yield from self._lose_now(losing, random.choice((WIPED, OLD)))
        if not self.is_over:
            last.crash("kill")
        yield from self._await(lambda: losing.life is not None and losing.life.node.is_serving)
        self._release(last)
        self._release(away)

    def _release(self, host: Host) -> None:
        if host in self.held:
            self.held.remove(host)

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
        self.held.append(late)
        late.crash("kill")
        yield from self._lose_now(late, WIPED)
        way = [(late.node_id, leader.node_id)]
        self._cluster.network.cut(way)
        if late.life is None and not self.is_over:
            late.start()
        yield from self._await(lambda: late.life is not None and late.life.node.is_serving)
        for connection in stranded:
            connection.to_node.release()
        yield Pause(_HEEDED_MS)
        self._cluster.network.mend(way)

    def _lose_now(self, host: Host, kind: str) -> Script[None]:
        """As soon as it may be, and not by the one who starts nodes; somebody else might."""
        directories = self._directories
        directories.condemn(host, kind)
        yield from self._await(
            lambda: host.is_up or not directories.is_condemned(host) or directories.strike(host)
        )
        directories.pardon(host)
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

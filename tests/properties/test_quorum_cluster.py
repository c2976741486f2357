"""Quorums of three and five through bad days: elections, crashes, partitions, snapshots, new
voters.

Each seed is one story: chaos with safety checks at every step (`tests/support/quorum_cluster.py`),
then all is healed and the quorum must agree and go on. The same stories must go wrong if one of the
two safeguards is switched off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pytest
from tests.support.quorum_cluster import SETTINGS, Cluster, Fate, Host, Violation

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.safeguards import ALL_SAFEGUARDS, QUORUM_SAFEGUARDS, Safeguard
from tidelog.quorum.events import ResignationWanted
from tidelog.quorum.messages import AddRaftVoterRequest, RemoveRaftVoterRequest, Response
from tidelog.quorum.states import State

SEEDS = 300
CHUNKS = 10
CHAOS_MS = 4_000.0
CALM_MS = 20_000.0


@dataclass
class Story:
    """One seed's cluster and the bad luck it has."""

    seed: int
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS

    def __post_init__(self) -> None:
        random = self.random = Random(f"story {self.seed}")
        self.grows = random.random() < 0.25
        self.blinks = random.random() < 0.3
        self.trips = random.random() < 0.3
        settings = SETTINGS
        if self.blinks:  # Timeouts so close to each other that there are rivals.
            settings = replace(SETTINGS, election_timeout_ms=40, election_backoff_max_ms=60)
        voters = 1 if self.grows else random.choice((3, 3, 5))
        nodes = 4 if self.grows else voters + random.choice((0, 0, 1))
        self.cluster = Cluster(
            self.seed, nodes, voters=voters, safeguards=self.safeguards, settings=settings
        )
        self.cluster.fate = Fate(
            delay_ms=40.0 if self.blinks else random.choice((3.0, 15.0, 40.0)),
            loss=random.choice((0.0, 0.02, 0.1)),
            doubling=random.choice((0.0, 0.05)),
            flush_ms=random.choice((1.0, 10.0, 60.0)),
            spike=random.choice((0.0, 0.01)),
        )
        self.value = 0

    def run(self) -> None:
        cluster = self.cluster
        self._later(10, self._write)
        self._later(100, self._disturb)
        if self.blinks:
            self._later(5, self._blink)
        if self.trips:
            self._later(10, self._trip)
        if self.grows:
            self._later(200, self._change_voters)
        cluster.run_until(CHAOS_MS)
        cluster.check_logs()
        self._heal()
        self._calm_down()
        self._check_liveness()

    def _later(self, mean_ms: float, action: object) -> None:
        delay = self.random.expovariate(1 / mean_ms)
        assert callable(action)
        self.cluster.at(self.cluster.now + delay, action)

    # --- the clients ----------------------------------------------------------------------------

    def _write(self) -> None:
        """To whoever believes to be the leader, stale ones too."""
        if self.cluster.now < CHAOS_MS:
            self._later(10 if self.trips else 25, self._write)
        leading = [h for h in self._up() if h.quorum and h.quorum.state is State.LEADER]
        if leading:
            self.value += 1
            values = [f"{self.value}.{n}" for n in range(self.random.randint(1, 3))]
            self.cluster.propose(self.random.choice(leading), values)

    def _change_voters(self) -> None:
        if self.cluster.now >= CHAOS_MS:
            return
        self._later(200, self._change_voters)
        leader = self.cluster.leader()
        if leader is None or leader.quorum is None:
            return
        voters = leader.quorum.voters
        missing = [h for h in self.cluster.hosts.values() if voters.get(h.node_id) is None]
        if missing and (len(voters) < 3 or self.random.random() < 0.5):
            add = AddRaftVoterRequest(self.random.choice(missing).key, (), 500)
            self.cluster.ask(leader, add, _ignore)
        elif len(voters) > 2:
            gone = self.random.choice(list(voters))
            self.cluster.ask(leader, RemoveRaftVoterRequest(gone.key), _ignore)

    # --- bad luck -------------------------------------------------------------------------------

    def _disturb(self) -> None:
        if self.cluster.now >= CHAOS_MS:
            return
        self._later(110, self._disturb)
        act = self.random.choice(
            (
                self._crash_one,
                self._crash_one,
                self._crash_leader,
                self._isolate_leader,
                self._isolate_leader,
                self._cut_in_two,
                self._cut_one_way,
                self._mend,
                self._mend,
                self._snapshot,
                self._resign,
            )
        )
        act()

    def _up(self) -> list[Host]:
        return [host for host in self.cluster.hosts.values() if host.quorum is not None]

    def _crash(self, host: Host) -> None:
        self.cluster.crash(host)
        self._later(self.random.choice((2, 60, 250)), lambda: self._start(host))

    def _start(self, host: Host) -> None:
        if host.quorum is None:
            self.cluster.start(host)

    def _crash_one(self) -> None:
        hosts = self._up()
        if hosts:
            self._crash(self.random.choice(hosts))

    def _blink(self) -> None:
        """Who has just voted loses its memory and is back at once."""
        if self.cluster.now >= CHAOS_MS:
            return
        self._later(10, self._blink)
        for host in self._up():
            has_voted = host.quorum is not None and host.quorum.state is State.VOTED
            if has_voted and self.random.random() < 0.5:
                self.cluster.crash(host)
                self.cluster.start(host)

    def _trip(self) -> None:
        """A new leader is cut off before it has committed anything, or the others are let in."""
        if self.cluster.now >= CHAOS_MS:
            return
        self._later(15, self._trip)
        leader = self.cluster.leader()
        if leader is None or leader.quorum is None or leader.quorum.has_office:
            return
        act = self.random.choice((self._isolate_leader, self._crash_leader, self._mend, None, None))
        if act is not None:
            act()

    def _crash_leader(self) -> None:
        leader = self.cluster.leader()
        if leader is not None:
            self._crash(leader)

    def _isolate(self, group: list[NodeId]) -> None:
        for inside in group:
            for other in self.cluster.hosts:
                if other not in group:
                    self.cluster.broken.update(((inside, other), (other, inside)))

    def _isolate_leader(self) -> None:
        leader = self.cluster.leader()
        if leader is not None:
            self.cluster.broken.clear()
            self._isolate([leader.node_id])

    def _cut_in_two(self) -> None:
        self.cluster.broken.clear()
        nodes = list(self.cluster.hosts)
        self._isolate(self.random.sample(nodes, len(nodes) // 2))

    def _cut_one_way(self) -> None:
        source, target = self.random.sample(list(self.cluster.hosts), 2)
        self.cluster.broken.add((source, target))

    def _mend(self) -> None:
        self.cluster.broken.clear()

    def _snapshot(self) -> None:
        hosts = self._up()
        if hosts:
            self.cluster.snapshot(self.random.choice(hosts))

    def _resign(self) -> None:
        leader = self.cluster.leader()
        if leader is not None:
            self.cluster.step(leader, ResignationWanted())

    # --- afterwards -----------------------------------------------------------------------------

    def _heal(self) -> None:
        self.cluster.broken.clear()
        self.cluster.fate = Fate()
        for host in self.cluster.hosts.values():
            self._start(host)

    def _calm_down(self) -> None:
        """Time for everybody to catch up, with a limit."""
        cluster = self.cluster
        limit = cluster.now + CALM_MS
        while cluster.now < limit:
            cluster.run_until(cluster.now + 250)
            leader = cluster.leader()
            if leader is not None and leader.quorum is not None and leader.quorum.has_office:
                ends = [host.applied_end for host in cluster.hosts.values()]
                if ends == [leader.log.end_offset] * len(ends):
                    return

    def _check_liveness(self) -> None:
        """A leader, and everybody agrees with it on everything, also on what is written now."""
        cluster = self.cluster
        leader = cluster.leader()
        if leader is None or leader.quorum is None or not leader.quorum.has_office:
            raise Violation("no leader after all was healed")
        proposal = cluster.propose(leader, ["after all"])
        if proposal is None or proposal.error is not ErrorCode.NONE:
            raise Violation(f"the leader does not take records: {proposal}")
        self._calm_down()
        cluster.check_logs()
        for host in cluster.hosts.values():
            assert host.quorum is not None
            if host.applied_end != leader.log.end_offset or host.applied != leader.applied:
                raise Violation(
                    f"node {host.node_id} is not like the leader: {host.quorum.describe()}"
                )
        if leader.applied[-1:] != ["after all"]:
            raise Violation("what was written after all was healed is not there")


def _ignore(response: Response) -> None:
    """An administrator who does not care."""


def told(seed: int, safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS) -> str | None:
    """What goes wrong in the story of `seed`. Assertions within a machine count too: they stop the
    node."""
    try:
        Story(seed, safeguards).run()
    except AssertionError as wrong:
        return f"seed {seed}: {type(wrong).__name__}: {wrong}"
    return None


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_story_ends_badly(chunk: int) -> None:
    seeds = range(chunk, SEEDS, CHUNKS)
    assert [end for end in map(told, seeds) if end is not None] == []


@pytest.mark.parametrize("safeguard", QUORUM_SAFEGUARDS, ids=lambda safeguard: safeguard.name)
def test_a_missing_safeguard_of_the_quorum_is_noticed(safeguard: Safeguard) -> None:
    rest = ALL_SAFEGUARDS - {safeguard}
    found = next((seed for seed in range(SEEDS) if told(seed, rest) is not None), None)
    assert found is not None, f"{SEEDS} seeds did not notice that {safeguard.name} was off"


def test_a_seed_tells_the_same_story_twice() -> None:
    first, second = Story(7), Story(7)
    first.run()
    second.run()
    assert first.cluster.leaders == second.cluster.leaders
    assert first.cluster.committed == second.cluster.committed

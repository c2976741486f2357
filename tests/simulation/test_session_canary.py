"""Leaders that are wrong on purpose about followers' fetch sessions are noticed, and soon."""

from __future__ import annotations

import pytest

from tidelog.broker.effects import Effect
from tidelog.broker.events import Event
from tidelog.broker.node import Node
from tidelog.model.clock import Now
from tidelog.model.ids import NodeId
from tidelog.partition.leader import Leader
from tidelog.partition.progress import LastFetch
from tidelog.sim.ablations import find_broken
from tidelog.sim.run import ANY_SIZE


class CredulousNode(Node):
    """What a follower's session does not name its leaders take for copied up to the end."""

    def settle(self, now: Now) -> list[Effect]:
        effects = super().settle(now)
        speaking = {one.last_fetch for one in self.state.follower_sessions.sessions()}
        for replica in self.state.replicas.by_key.values():
            if replica.leader is not None:
                for known in replica.leader.progress.values():
                    if known.session in speaking:
                        known.fetch_offset = replica.log.log_end_offset
                replica.leader.flushed()
        return effects


class ClingingNode(Node):
    """Its leaders let a session speak for what its follower has dropped from it."""

    def receive(self, now: Now, event: Event) -> list[Effect]:
        for replica in self.state.replicas.by_key.values():
            if replica.leader is not None:
                replica.leader.__class__ = ClingingLeader
        return super().receive(now, event)


class ClingingLeader(Leader):
    __slots__ = ()

    def fell_silent(self, node_id: NodeId, session: LastFetch) -> None:
        return


@pytest.mark.parametrize(
    ("broken", "properties"),
    [
        (CredulousNode, {"I7", "I12", "I17"}),
        (ClingingNode, {"crash"}),
    ],
)
def test_a_leader_that_is_wrong_about_sessions_is_caught(
    broken: type[Node], properties: set[str]
) -> None:
    discovery = find_broken(broken, nodes=ANY_SIZE, max_seeds=40)
    assert discovery is not None
    assert {finding.property for finding in discovery.outcome.findings} & properties

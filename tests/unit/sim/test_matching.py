"""I5 and I13 on logs made by hand: what was committed is here, and stays."""

from __future__ import annotations

import pytest
from tests.unit.log.logs import a_batch, append, flush, settings
from tests.unit.partition.replicas import ME, OTHER, a_log, a_membership, a_state, an_answer, hear

from tidelog.log.log import Log
from tidelog.model.ids import NodeId, Offset
from tidelog.partition.replica import Replica
from tidelog.sim.replicated.matching import Matching, epoch_spans


class Watched:
    """What the checker says of replicas that a test makes."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.matching = Matching(lambda property, _: self.found.append(property))

    def commit(self, replica: Replica, watermark: int) -> None:
        self.matching.commit(replica, Offset(watermark))

    def look(self, replica: Replica, *, counts: bool = True, node_id: NodeId = OTHER) -> None:
        self.matching.look(node_id, replica, counts=counts)


def a_log_of(*epochs: int) -> Log:
    """A record of each epoch."""
    log = a_log()
    for epoch in epochs:
        append(log, a_batch(), epoch=epoch)
    flush(log)
    return log


def a_replica(*epochs: int, node_id: NodeId = OTHER) -> Replica:
    state = a_state(leader=ME, epoch=9)
    return Replica(state, a_log_of(*epochs), settings(), a_membership(node_id), now_ms=0)


@pytest.fixture
def watched() -> Watched:
    """With four records of two epochs committed, of the five that their leader has."""
    one = Watched()
    one.commit(a_replica(1, 1, 3, 3, 3, node_id=ME), 4)
    return one


def test_spans_are_those_of_the_range_alone() -> None:
    epochs = a_log_of(1, 1, 3, 3, 7).epochs
    assert epoch_spans(epochs, 0, 5) == [(1, 0), (3, 2), (7, 4)]
    assert epoch_spans(epochs, 1, 3) == [(1, 1), (3, 2)]
    assert epoch_spans(epochs, 2, 4) == [(3, 2)]
    assert epoch_spans(epochs, 3, 3) == []


def test_the_same_records_match(watched: Watched) -> None:
    watched.look(a_replica(1, 1, 3, 3))
    watched.look(a_replica(1, 1, 3, 3, 3))
    assert watched.found == []


def test_what_is_not_committed_may_differ(watched: Watched) -> None:
    watched.look(a_replica(1, 1, 3, 3, 4))
    assert watched.found == []


def test_who_may_be_elected_must_have_the_same_records_not_just_as_many(watched: Watched) -> None:
    watched.look(a_replica(1, 1, 2, 2))
    assert watched.found == ["I5"]


def test_who_may_not_be_elected_has_only_to_match_what_it_shows(watched: Watched) -> None:
    replica = a_replica(1, 1, 2, 2)
    watched.look(replica, counts=False)
    assert watched.found == []
    assert replica.follower is not None
    hear(replica.follower, an_answer(high_watermark=3))
    watched.look(replica, counts=False)
    assert watched.found == ["I5"]


def test_more_is_compared_when_more_is_committed(watched: Watched) -> None:
    replica = a_replica(1, 1, 3, 3, 4)
    watched.look(replica)
    watched.commit(a_replica(1, 1, 3, 3, 3, node_id=ME), 5)
    watched.look(replica)
    assert watched.found == ["I5"]


def test_nobody_cuts_what_is_committed(watched: Watched) -> None:
    replica = a_replica(1, 1, 3, 3, 3)
    watched.look(replica)
    replica.log.truncate_to(Offset(4))
    watched.look(replica)
    assert watched.found == []
    replica.log.truncate_to(Offset(3))
    watched.look(replica)
    watched.look(replica)
    assert watched.found == ["I13"], "once"


def test_another_life_may_have_lost_what_was_not_flushed(watched: Watched) -> None:
    watched.look(a_replica(1, 1, 3, 3))
    watched.look(a_replica(1, 1))
    assert watched.found == []


def test_a_damaged_leader_does_not_say_which_epochs_were_committed() -> None:
    """What it lost may hide where an epoch began; who leads next knows."""
    watched = Watched()
    damaged = a_replica(1, 1, 3, 3, node_id=ME)
    damaged.log._segments[0].quarantine(0, 0, "for this test")
    damaged.log.epochs.cut(0)
    damaged.log.epochs.note(3, 3)
    watched.commit(damaged, 4)
    watched.commit(a_replica(1, 1, 3, 3, 3, node_id=ME), 5)
    watched.look(a_replica(1, 1, 3, 3, 3))
    assert watched.found == []
    watched.look(a_replica(1, 3, 3, 3, 3, node_id=ME), node_id=ME)
    assert watched.found == ["I5"]

"""What `tidelog cluster elect` makes of the controller's answers."""

from __future__ import annotations

from tidelog.cli.cluster_elect import _really_needing
from tidelog.client.admin import Partition
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition


def test_an_election_that_the_asked_node_had_not_heard_of_is_not_held_again() -> None:
    places = [TopicPartition("orders", index) for index in range(3)]
    before = {place: Partition(place.partition, 2, (1, 2), (1, 2)) for place in places}
    outcomes = {
        places[0]: ErrorCode.NONE,
        places[1]: ErrorCode.ELECTION_NOT_NEEDED,
        places[2]: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
    assert list(_really_needing(before, outcomes)) == [places[0], places[2]]

"""What the command line says of an unclean election before it is made."""

from __future__ import annotations

from tidelog.cli.unclean_outlook import outlook_of
from tidelog.client.unclean_elections import Contest, ReplicaLog
from tidelog.model.ids import NO_LEADER


def replica(
    node: int,
    end: int | None = None,
    *,
    epoch: int | None = 0,
    committed: int | None = 0,
    is_up: bool = True,
) -> ReplicaLog:
    if end is None:
        epoch = committed = None
    return ReplicaLog(node, is_up, epoch, end, committed, has_doubt=False)


def test_the_fullest_would_lead_and_nothing_that_is_known_is_lost() -> None:
    wiped = replica(1, 0, epoch=-1)
    outlook = outlook_of(Contest((wiped, replica(2, 500), replica(3, 480)), last_known=(1,)))
    assert (outlook.leader, outlook.known_lost, outlook.down) == (2, 0, ())
    rows = outlook.document()["replicas"]
    assert [row["is_empty"] for row in rows] == [True, False, False]


def test_what_others_have_in_an_older_epoch_is_lost() -> None:
    outlook = outlook_of(Contest((replica(1, 500), replica(2, 480, epoch=3)), last_known=()))
    assert (outlook.leader, outlook.known_lost) == (2, 20)


def test_what_was_committed_once_is_lost_though_nobody_has_it() -> None:
    outlook = outlook_of(Contest((replica(1, 480, committed=500),), last_known=()))
    assert (outlook.leader, outlook.known_lost) == (1, 20)


def test_who_is_down_is_not_elected_and_is_named() -> None:
    down = replica(1, is_up=False)
    outlook = outlook_of(Contest((down, replica(2), replica(3, 0, epoch=-1)), last_known=()))
    assert (outlook.leader, outlook.down) == (3, (1,))
    assert outlook_of(Contest((down,), last_known=(1,))).leader == NO_LEADER

"""The states of a replica, and the steps between them, as data.

`roles.py` refuses a step that is not in the table; `docs/elections.md` has it as a drawing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    """What a replica is doing about its epoch."""

    UNATTACHED = "Unattached"
    VOTED = "Voted"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"
    OBSERVER = "Observer"


MEANING: Mapping[State, str] = {
    State.UNATTACHED: "a voter without a leader to follow; asks for votes when its time is up",
    State.VOTED: "has promised its vote of this epoch to another, and waits for the outcome",
    State.PROSPECTIVE: "asks whether it would be elected (pre-vote); nobody is bound by that",
    State.CANDIDATE: "has begun a new epoch with a vote for itself, and asks for the others'",
    State.LEADER: "was elected: appends, answers fetches, says what is committed",
    State.FOLLOWER: "a voter that fetches from the leader",
    State.RESIGNED: "was the leader of this epoch and is no more; never will be in this epoch",
    State.OBSERVER: "no voter: fetches from the leader, or asks around who that is",
}

_U, _V, _P, _C = State.UNATTACHED, State.VOTED, State.PROSPECTIVE, State.CANDIDATE
_L, _F, _R, _O = State.LEADER, State.FOLLOWER, State.RESIGNED, State.OBSERVER

TRANSITIONS: Mapping[tuple[State, State], str] = {
    (_U, _V): "grants a vote",
    (_U, _P): "the election timeout is over",
    (_U, _F): "hears of the leader",
    (_V, _U): "hears of a higher epoch",
    (_V, _P): "the election timeout is over",
    (_V, _F): "hears of the leader",
    (_P, _V): "grants a vote",
    (_P, _U): "a majority would not vote for it; a higher epoch; no majority in time",
    (_P, _C): "a majority would vote for it",
    (_P, _F): "hears of the leader",
    (_C, _U): "hears of a higher epoch",
    (_C, _P): "lost, or no majority in time",
    (_C, _F): "hears of the leader",
    (_C, _L): "a majority has voted for it",
    (_L, _U): "hears of a higher epoch",
    (_L, _F): "hears of the leader of a higher epoch",
    (_L, _R): "a majority does not fetch; its node stops; it is no voter any more",
    (_L, _O): "hears of a higher epoch, being no voter any more",
    (_F, _U): "the leader resigns; a higher epoch",
    (_F, _P): "the fetch timeout is over",
    (_F, _O): "is no voter any more",
    (_R, _P): "the election timeout is over",
    (_R, _U): "hears of a higher epoch",
    (_R, _F): "hears of the leader of a higher epoch",
    (_R, _O): "is no voter any more",
    (_O, _F): "became a voter, knowing the leader",
    (_O, _U): "became a voter, not knowing the leader",
}
"""Every step from one state to another, and its causes. A state may also be entered anew: a higher
epoch, another leader, another round of votes."""


def check_step(before: State, after: State) -> None:
    """The table is the law."""
    is_legal = before is after or (before, after) in TRANSITIONS
    assert is_legal, f"a replica went from {before.value} to {after.value}"

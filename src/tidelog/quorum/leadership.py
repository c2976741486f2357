"""What a leader knows of the others, and the arithmetic of a majority.

A replica's position is the offset of its last valid fetch: it fetches only what follows its
*durable* end. The leader's own is the durable end of its log. The high watermark candidate is the
largest offset that a majority of the voters has reached.

A voter elects nobody else for a while after each answer that has come to it (`core.Promise`). That
a fetch has come says nothing of this: it may have been sent, or sent again, long after the last
answer came. So answers are numbered, a fetch says which was heard last, and a promise counts from
when that one was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum.events import Ticket
from tidelog.quorum.messages import AddRaftVoterRequest, FetchRequest, RemoveRaftVoterRequest
from tidelog.quorum.voters import ReplicaKey, VoterSet

BEGINNING = Offset(0)

_MAX_UNHEARD = 16
"""Answers to one replica of which it is not known whether they came; older ones are forgotten."""

_MAX_NUMBER = 2**31 - 1
"""On the wire it has 32 bits. Then they begin again with 1."""


@dataclass(slots=True)
class Progress:
    """One other replica, as its fetches show it."""

    key: ReplicaKey
    position: Offset = BEGINNING
    last_fetch_ms: float | None = None
    last_caught_up_ms: float | None = None
    bound_since_ms: float = -inf
    """When the last answer was sent of which it is known that it came."""
    unheard: dict[int, float] = field(default_factory=dict)
    """When answers were sent of which it is not, by their numbers."""
    last_number: int = 0

    def answered(self, now_ms: float) -> int:
        """The number of an answer that leaves now."""
        self.last_number = self.last_number % _MAX_NUMBER + 1
        self.unheard[self.last_number] = now_ms
        if len(self.unheard) > _MAX_UNHEARD:
            del self.unheard[next(iter(self.unheard))]
        return self.last_number

    def heard(self, number: int) -> None:
        """It has told that this answer came."""
        if number in self.unheard:
            self.bound_since_ms = max(self.bound_since_ms, self.unheard[number])
            while next(iter(self.unheard)) != number:
                del self.unheard[next(iter(self.unheard))]
            del self.unheard[number]


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that waits for news."""

    ticket: Ticket
    request: FetchRequest
    deadline_ms: float


@dataclass(slots=True)
class VoterChange:
    """The change of voters that is under way. It has a `record_offset` once it is in the log, and
    no ticket once it is answered."""

    ticket: Ticket | None
    request: AddRaftVoterRequest | RemoveRaftVoterRequest
    voters: VoterSet
    deadline_ms: float
    catch_up_offset: Offset
    record_offset: Offset | None = None


@dataclass(slots=True)
class Leadership:
    """One epoch's leadership; gone with it."""

    key: ReplicaKey
    epoch: LeaderEpoch
    start_offset: Offset
    """Of the LeaderChange record."""
    since_ms: float
    has_office: bool = False
    replicas: dict[NodeId, Progress] = field(default_factory=dict)
    parked: dict[NodeId, ParkedFetch] = field(default_factory=dict)
    change: VoterChange | None = None

    def contact(self, key: ReplicaKey, now_ms: float) -> Progress:
        """A replica has shown that it is there. Another directory is another replica."""
        progress = self.replicas.get(key.node_id)
        if progress is None or progress.key != key:
            progress = self.replicas[key.node_id] = Progress(key)
        progress.last_fetch_ms = now_ms
        return progress

    def is_taken(self, key: ReplicaKey, now_ms: float, timeout_ms: int) -> bool:
        """The node's place belongs to another directory that was heard of just now: two processes
        have one id, and the one that came first must not be taken for the other."""
        known = self.replicas.get(key.node_id)
        if known is None or known.key.is_same(key) or known.last_fetch_ms is None:
            return False
        return now_ms - known.last_fetch_ms < timeout_ms

    def progress_of(self, key: ReplicaKey) -> Progress | None:
        progress = self.replicas.get(key.node_id)
        return progress if progress is not None and progress.key.is_same(key) else None

    def majority_offset(self, voters: VoterSet, own_durable_end: Offset) -> Offset:
        """What a majority of the voters holds durably."""
        positions = sorted(
            (self._position(voter.key, own_durable_end) for voter in voters), reverse=True
        )
        return Offset(positions[voters.majority - 1]) if positions else BEGINNING

    def _position(self, key: ReplicaKey, own_durable_end: Offset) -> int:
        if key.is_same(self.key):
            return own_durable_end
        progress = self.progress_of(key)
        return 0 if progress is None else progress.position

    def quorum_deadline_ms(self, voters: VoterSet, timeout_ms: int) -> float | None:
        """When a majority will have been silent for the timeout; none if it needs no others."""
        heard_ms = self._majority_since(voters, self._heard)
        return None if heard_ms is None else heard_ms + timeout_ms

    def promised_until_ms(self, voters: VoterSet, timeout_ms: int) -> float | None:
        """Until when a majority elects nobody else, for certain; none if it needs no others."""
        bound_ms = self._majority_since(voters, self._bound)
        return None if bound_ms is None else bound_ms + timeout_ms

    def _majority_since(
        self, voters: VoterSet, since_ms: Callable[[ReplicaKey], float]
    ) -> float | None:
        """The latest moment of which that many can say so who make a majority with us."""
        needed = voters.majority - (1 if voters.has(self.key) else 0)
        if needed <= 0:
            return None
        moments = sorted((since_ms(each.key) for each in voters.others(self.key)), reverse=True)
        return moments[needed - 1]

    def _bound(self, key: ReplicaKey) -> float:
        progress = self.progress_of(key)
        return -inf if progress is None else progress.bound_since_ms

    def _heard(self, key: ReplicaKey) -> float:
        progress = self.progress_of(key)
        if progress is None or progress.last_fetch_ms is None:
            return self.since_ms
        return progress.last_fetch_ms

    def has_majority_following(self, voters: VoterSet, since_ms: float) -> bool:
        """A majority has this epoch's beginning within reach, and was heard of since then."""
        following = 0
        for voter in voters:
            progress = self.progress_of(voter.key)
            if voter.key.is_same(self.key) or (
                progress is not None
                and progress.last_fetch_ms is not None
                and progress.last_fetch_ms >= since_ms
                and progress.position >= self.start_offset
            ):
                following += 1
        return following >= voters.majority

    def successors(self, voters: VoterSet) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        others = voters.others(self.key)
        ordered = sorted(
            others, key=lambda voter: (-self._position(voter.key, BEGINNING), voter.key)
        )
        return tuple(voter.key for voter in ordered)

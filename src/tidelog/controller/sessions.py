"""Who is alive: heartbeats, on the controller's monotonic clock.

Soft state, never recorded: a new controller knows nothing, and gives every node a full session to
be heard of before it fences anybody. What is recorded is the consequence, fenced or not.

An answered heartbeat is worth less to the node than to the controller: a *lease*, which ends before
the session does (`LEASE_SHARE`). A node that is heard of, but has not read yet that it was replaced
(its disk may be slow), gets none: it would go on as a leader that others have overtaken. And where
there is a reason to believe that a node is gone, nobody needs to wait for the session's end:

- its connection was closed: it has until its lease is over to be heard of again;
- it was the controller before this one: the lease it gave itself ended when its voters stopped to
  follow it (`broker/registration.py`), and they did so before they elected this one. It has a
  moment (`FORMER_SHARE`) to show that it is still there.

    fenced ──(heard of, metadata caught up)──► serving ──(wants to stop)──► shutting down
      ▲                                           │                             │
      └────────────(session over, or asks for it)─┴──(leaders moved and seen)───┘

Where nodes have a session elsewhere, too (with ZooKeeper), `present` are those who have: they may
lead without being heard of, so nobody is fenced who is present, and nobody is let in who is not.
A controller that can't be certain to be the only one promises nothing, unless every node that
counts as alive has just told it that it is cut off as well: then none of them can have been told of
another controller. A new one waits twice as long before it fences, so such a promise has run out.

A controller that was late itself (`broker/lateness.py`) extends all sessions by that: it fences
nobody for a silence in which it did not listen.

A node that shuts down may go when everybody else has seen who leads in its place; so a client that
is sent away always finds the new leader.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.controller.decision import Decision
from tidelog.controller.node_changes import (
    plan_doubts,
    plan_fencing,
    plan_shutdown,
    plan_unfencing,
)
from tidelog.controller.registry import check_broker_epoch
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import Image, NodeState
from tidelog.metadata.records import MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, NodeId, Offset, PartitionKey
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

LEASE_SHARE = 0.6
"""Of a session: so long a node may act on an answered heartbeat, counted from when it was sent."""

FORMER_SHARE = 0.1
"""Of a session: so long a new controller waits for the node of the one before it."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """`metadata_offset` is of the last record the node has applied. `may_lack`: the partitions
    whose logs recovery has cut by whole batches (`log/recovery.py`)."""

    node_id: NodeId
    epoch: int
    metadata_offset: int
    wants_fence: bool = False
    wants_shutdown: bool = False
    is_cut_off: bool = False
    may_lack: tuple[PartitionKey, ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatOutcome:
    error: ErrorCode = ErrorCode.NONE
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


NEVER_HEARD = float("-inf")


@dataclass(slots=True)
class Session:
    """One node's. `must_reach` is the metadata offset of its registration, or at which it was
    fenced or replaced as a leader: until it knows what it leads no more, its heartbeats bring no
    lease. `moved_at` is the one at which what it led had gone to others."""

    deadline_ms: float
    metadata_offset: Offset = NO_OFFSET
    must_reach: Offset = NO_OFFSET
    moved_at: Offset = NO_OFFSET
    is_short: bool = False
    """It ends with the lease."""
    heard_ms: float = NEVER_HEARD
    is_cut_off: bool = False


class Sessions:
    """The sessions of all nodes, as one controller sees them."""

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._rows: dict[NodeId, Session] = {}
        self.present: frozenset[NodeId] | None = None

    def begin(
        self, image: Image, *, now_ms: float, offset: Offset, former: NodeId | None = None
    ) -> None:
        """This controller has just been elected: `offset` is of the newest record there is,
        `former` the node of the controller before."""
        if self.present is not None:
            former = None  # what it has promised, it may have promised without being certain
        session_ms = self._timeout_ms * (1 if self.present is None else 2)
        self._rows = {
            node_id: Session(
                now_ms + session_ms * (FORMER_SHARE if node_id == former else 1),
                must_reach=offset,
                moved_at=offset,
                is_short=node_id == former,
            )
            for node_id in image.nodes
        }

    def registered(self, node_id: NodeId, now_ms: float) -> None:
        """A session for a new registration; its offset comes with `appended`."""
        self._rows[node_id] = Session(now_ms + self._timeout_ms)

    def heard(self, beat: Heartbeat, now_ms: float) -> Session:
        session = self._rows.setdefault(beat.node_id, Session(now_ms))
        session.deadline_ms = now_ms + self._timeout_ms
        session.is_short = False
        session.metadata_offset = Offset(beat.metadata_offset)
        session.heard_ms, session.is_cut_off = now_ms, beat.is_cut_off
        return session

    def lost_touch(self, node_id: NodeId) -> None:
        """The connection that its heartbeats came on is closed: it may have ended."""
        session = self._rows.get(node_id)
        if session is not None and not session.is_short and self.present is None:
            session.is_short = True
            session.deadline_ms -= self._timeout_ms * (1 - LEASE_SHARE)

    def extend(self, late_ms: float, now_ms: float) -> None:
        """The controller itself was late by `late_ms`, and could not hear anybody meanwhile. That
        is no node's silence: each session lasts so much longer, but no longer than a new one. It
        is always safe: a node counts its lease from when it sent its heartbeat."""
        for session in self._rows.values():
            longest_ms = max(session.deadline_ms, now_ms + self._timeout_ms)
            session.deadline_ms = min(session.deadline_ms + late_ms, longest_ms)

    def appended(self, delta: Delta, offset: Offset) -> None:
        """Records are in the log, the last of them at `offset`."""
        for node_id, node in delta.nodes.items():
            session = self._rows.get(node_id)
            if session is None:
                continue
            before, after = node.before, node.after
            if after is None:
                del self._rows[node_id]
            elif before is None or before.epoch != after.epoch or _is_sent_away(before, after):
                session.must_reach = offset
            elif after.is_shutting_down and not before.is_shutting_down:
                session.moved_at = offset
        for partition in delta.partitions.values():
            replaced = None if partition.before is None else partition.before.leader
            session = None if replaced is None else self._rows.get(replaced)
            if session is not None and replaced != partition.after.leader:
                session.must_reach = offset

    def has_session(self, node_id: NodeId, now_ms: float) -> bool:
        """Of whom nothing can be known (nobody has told this controller to begin), yes."""
        session = self._rows.get(node_id)
        return session is None or now_ms < session.deadline_ms

    def may_be_alive(self, node_id: NodeId, now_ms: float, *, is_successor: bool) -> bool:
        """Whether a node of that id may still act. Who holds the directory of the last one, and has
        taken its place among those present, has outlived it."""
        if is_successor and self.present is not None and node_id in self.present:
            return False
        return self.has_session(node_id, now_ms)

    def is_absent(self, node_id: NodeId) -> bool:
        """It is known to have no session elsewhere."""
        return self.present is not None and node_id not in self.present

    def are_all_cut_off(self, image: Image, now_ms: float) -> bool:
        """Every node that counts as alive has just said so."""
        rows = [self._rows.get(node.node_id) for node in image.nodes.values() if not node.is_fenced]
        return all(
            row is not None and row.is_cut_off and now_ms - row.heard_ms <= self._timeout_ms / 2
            for row in rows
        )

    def expired(self, image: Image, now_ms: float) -> list[NodeId]:
        """Nodes that count as alive, and were not heard of for too long."""
        return [
            node_id
            for node_id in sorted(image.nodes)
            if not image.nodes[node_id].is_fenced
            and not self.has_session(node_id, now_ms)
            and (self.present is None or node_id not in self.present)
        ]

    def next_deadline(self, image: Image) -> float | None:
        """When the next session ends, of a node that counts as alive."""
        deadlines = [
            session.deadline_ms
            for node_id, session in self._rows.items()
            if node_id in image.nodes
            and not image.nodes[node_id].is_fenced
            and (self.present is None or node_id not in self.present)
        ]
        return min(deadlines, default=None)

    def have_all_seen(self, image: Image, offset: Offset, *, but: NodeId) -> bool:
        """Whether every other living node has applied the record at `offset`."""
        return all(
            node_id in self._rows and self._rows[node_id].metadata_offset >= offset
            for node_id, node in image.nodes.items()
            if node_id != but and not node.is_fenced
        )

    def describe(self) -> list[dict[str, object]]:
        return [
            {
                "node_id": node_id,
                "deadline_ms": session.deadline_ms,
                "metadata_offset": session.metadata_offset,
            }
            for node_id, session in self._rows.items()
        ]


def _is_sent_away(before: NodeState, after: NodeState) -> bool:
    return after.is_fenced and not before.is_fenced


def decide_heartbeat(
    image: Image,
    sessions: Sessions,
    beat: Heartbeat,
    *,
    now_ms: float,
    is_certain: bool = True,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[HeartbeatOutcome]:
    error = check_broker_epoch(image, beat.node_id, beat.epoch, safeguards)
    if error is not ErrorCode.NONE:
        return Decision([], HeartbeatOutcome(error))
    if sessions.is_absent(beat.node_id):
        return Decision([], HeartbeatOutcome(ErrorCode.BROKER_NOT_AVAILABLE))
    session = sessions.heard(beat, now_ms)
    if not is_certain and not sessions.are_all_cut_off(image, now_ms):
        return Decision([], HeartbeatOutcome(ErrorCode.BROKER_NOT_AVAILABLE))
    is_caught_up = session.metadata_offset >= session.must_reach
    node = image.nodes[beat.node_id]
    if node.is_fenced:
        return _decide_fenced(image, beat, is_caught_up, safeguards)
    if beat.wants_shutdown:
        may_go = node.is_shutting_down and _has_handed_over(image, sessions, session, node)
        return _decide_leaving(image, node, may_go, is_caught_up, safeguards)
    if beat.wants_fence:
        records = plan_fencing(image, beat.node_id, safeguards=safeguards)
        return Decision(records, HeartbeatOutcome(is_caught_up=is_caught_up))
    doubts = plan_doubts(image, beat.node_id, beat.may_lack, safeguards=safeguards)
    return Decision(doubts, HeartbeatOutcome(is_caught_up=is_caught_up, is_fenced=False))


def decide_expiry(
    image: Image,
    sessions: Sessions,
    *,
    now_ms: float,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[list[NodeId]]:
    """Fence who was not heard of. The decision holds until it is recorded: decide again else."""
    records: list[MetadataRecord] = []
    expired = sessions.expired(image, now_ms)
    for node_id in expired:
        made = plan_fencing(image, node_id, safeguards=safeguards)
        image, _ = image.replay(made)
        records += made
    return Decision(records, expired)


def _decide_fenced(
    image: Image, beat: Heartbeat, is_caught_up: bool, safeguards: frozenset[Safeguard]
) -> Decision[HeartbeatOutcome]:
    if beat.wants_shutdown:
        return Decision([], HeartbeatOutcome(is_caught_up=is_caught_up, should_shut_down=True))
    if beat.wants_fence or not is_caught_up:
        return Decision([], HeartbeatOutcome(is_caught_up=is_caught_up))
    records = plan_doubts(image, beat.node_id, beat.may_lack, safeguards=safeguards)
    after, _ = image.replay(records)
    records += plan_unfencing(after, beat.node_id, safeguards=safeguards)
    return Decision(records, HeartbeatOutcome(is_caught_up=True, is_fenced=False))


def _decide_leaving(
    image: Image,
    node: NodeState,
    may_go: bool,
    is_caught_up: bool,
    safeguards: frozenset[Safeguard],
) -> Decision[HeartbeatOutcome]:
    outcome = HeartbeatOutcome(is_caught_up=is_caught_up, is_fenced=may_go, should_shut_down=may_go)
    records: list[MetadataRecord] = []
    if may_go:
        records = plan_fencing(image, node.node_id, safeguards=safeguards)
    elif not node.is_shutting_down:
        records = plan_shutdown(image, node.node_id, safeguards=safeguards)
    return Decision(records, outcome)


def _has_handed_over(image: Image, sessions: Sessions, session: Session, node: NodeState) -> bool:
    leads_nothing = not image.leads_any(node.node_id)
    return leads_nothing and sessions.have_all_seen(image, session.moved_at, but=node.node_id)

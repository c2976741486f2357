"""The metadata log of a node whose cluster agrees by ZooKeeper, with its I/O as effects.

To the rest of the node it looks like the quorum's journal: decisions in, committed records out.

The session is what ZooKeeper knows of the node, and it has four states:

| state | meaning |
|---|---|
| none | not connected yet, or told that the session is over: this node leads nothing |
| connected | what ZooKeeper answers is the truth |
| suspended | the connection is gone: what is known is served on, nothing is changed |
| expired | ZooKeeper has ended it: fenced at once; a new one begins with a new registration |

From every answer on, for the session's timeout counted from when it was asked for, the node is sure
that its znode is there (`lease_until_ms`), hence that nobody was given what it leads. So it looks
at what it watches every so often, even if nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidelog.log.log import FlushTicket
from tidelog.metadata.image import Image
from tidelog.metadata.journal import NotController, Unreachable
from tidelog.metadata.records import MetadataRecord
from tidelog.model.clock import Now, earliest
from tidelog.model.ids import Endpoint, LeaderEpoch, NodeId, Offset
from tidelog.wire.errors import DecodeError
from tidelog.zookeeper.following import Follower
from tidelog.zookeeper.office import Office, Stage
from tidelog.zookeeper.paths import CONTROLLER, HEAD, IDS
from tidelog.zookeeper.presence import Presence, Self
from tidelog.zookeeper.requests import (
    NO_SESSION,
    Answered,
    AskZooKeeper,
    SessionExpired,
    SessionResumed,
    SessionStarted,
    SessionSuspended,
    WatchFired,
    Word,
)
from tidelog.zookeeper.talks import Talk, Talks

_QUESTIONS_PER_SESSION = 5
"""How often within a session's timeout ZooKeeper is asked something, if only for the answer."""


class ZooKeeperJournal:
    """See the module's text. To be connected before it is used."""

    def __init__(self, own: Self, *, records_per_snapshot: int) -> None:
        self._own = own
        self._talks = Talks()
        self._follower = Follower()
        self._presence = Presence(own)
        self._office = Office(own.node_id, own.endpoint, self._follower)
        self._records_per_snapshot = records_per_snapshot
        self._since_snapshot = 0
        self._look_ms: float | None = None
        self.failure: str | None = None
        """Why the node can't go on: the metadata is not to be understood by it."""
        self.stranger: Endpoint | None = None
        self.reports: list[str] = []
        self.sessions_ended = 0

    # --- as any journal -------------------------------------------------------------------------

    @property
    def committed_offset(self) -> Offset:
        return self._follower.fetched

    @property
    def applied_offset(self) -> Offset:
        return Offset(self._follower.applied - 1)

    @property
    def last_offset(self) -> Offset:
        return Offset(self._office.end - 1)

    def append(self, records: Sequence[MetadataRecord], now: Now) -> Offset:
        """Propose one decision. `NotController`, or `Unreachable` while ZooKeeper is."""
        if not self.is_active:
            raise NotController
        if not self._talks.is_connected:
            raise Unreachable
        offset = self._office.propose(records)
        self._write(now)
        return offset

    def take_restored(self) -> Image | None:
        return self._follower.take_restored()

    def take_committed(self) -> list[MetadataRecord]:
        records = self._follower.take_records()
        self._since_snapshot += len(records)
        return records

    def read_uncommitted(self) -> list[MetadataRecord]:
        """A controller that takes office has read to the head, and nothing is beyond that."""
        return []

    def keep_snapshot(self, image: Image, now: Now) -> None:
        """If the log has grown enough, and it is this node that may write it."""
        is_due = self._since_snapshot >= self._records_per_snapshot
        if is_due and self.is_active and self._talks.is_connected:
            self._since_snapshot = 0
            self._office.want_snapshot(self._follower.applied, image)
            self._write(now)

    # What a journal on a disk of its own does; here that is ZooKeeper's business.

    def flush_ticket(self) -> FlushTicket | None:
        return None

    def flushed(self, ticket: FlushTicket, now: Now) -> None:
        raise AssertionError("nothing of this journal is flushed here")

    def checkpoint(self) -> bool:
        return False

    def close_cleanly(self) -> None:
        pass

    # --- as a member's journal ------------------------------------------------------------------

    @property
    def epoch(self) -> LeaderEpoch:
        return LeaderEpoch(self._office.epoch)

    @property
    def is_active(self) -> bool:
        """In office, and knowing who is there: nobody is fenced on the word of heartbeats alone."""
        return self._office.stage is Stage.IN_OFFICE and self._presence.present is not None

    @property
    def leader_id(self) -> NodeId | None:
        controller = self._office.controller
        return None if controller is None else controller.node_id

    @property
    def lease_until_ms(self) -> float:
        return self._talks.certain_until_ms if self._presence.is_announced else 0.0

    @property
    def present(self) -> frozenset[NodeId] | None:
        return self._presence.present

    @property
    def may_join(self) -> bool:
        return self._presence.is_announced and self._talks.is_connected

    @property
    def is_cut_off(self) -> bool:
        return not self._talks.is_connected

    def is_certain(self, now_ms: float) -> bool:
        """No other controller can be there yet."""
        return now_ms < self._talks.certain_until_ms

    def connect(
        self,
        *,
        endpoint_of: Callable[[NodeId], Endpoint | None],
        answer: Callable[[int, Any], None],
        want_flush: Callable[[], None],
        newest_image: Callable[[], Image],
    ) -> None:
        self._office.newest_image = newest_image

    def configured_endpoint(self, node_id: NodeId) -> Endpoint | None:
        """Nothing says: nodes find each other through ZooKeeper."""
        return None

    def told_endpoint(self, node_id: NodeId) -> Endpoint | None:
        """The controller's own znode says where it is, before any metadata does."""
        controller = self._office.controller
        if controller is None or controller.node_id != node_id:
            return None
        return controller.endpoint

    def voter_endpoint(self, node_id: NodeId) -> Endpoint | None:
        """Nobody votes here."""
        return None

    twin = None
    """A second one of this id waits for the first one's znode, and does not get so far."""

    def join(self, cluster_id: str) -> None:
        """Who shares these znodes shares the cluster."""

    def office_until_ms(self) -> float | None:
        """What a controller promises here depends on whether it is certain, not on voters."""
        return None

    def note_broker_epoch(self, epoch: int, now: Now) -> None:
        """The cluster knows this node by another epoch now."""
        self._presence.epoch = epoch
        if self._presence.is_announced and not self._presence.is_up_to_date:
            self._talks.begin("epoch", self._presence.tell_epoch, now.monotonic_ms)

    def next_deadline(self) -> float | None:
        return earliest(self._talks.next_deadline(), self._look_ms)

    def tick(self, now: Now) -> None:
        self._advance(now, lambda: self._talks.tick(now.monotonic_ms))
        if self._look_ms is not None and now.monotonic_ms >= self._look_ms:
            self._look_ms = now.monotonic_ms + self._talks.timeout_ms / _QUESTIONS_PER_SESSION
            self._look_at_all(now)

    def resign(self, now: Now) -> None:
        if self.is_active and self._talks.is_connected:
            self._talks.begin("resign", self._office.resign, now.monotonic_ms)

    def take_effects(self) -> list[AskZooKeeper]:
        return self._talks.take_effects()

    def validate(self) -> None:
        follower = self._follower
        assert follower.applied <= follower.fetched <= self._office.end

    def describe(self) -> dict[str, Any]:
        return {
            "session": f"{self._talks.session:#x}",
            "is_connected": self._talks.is_connected,
            "is_announced": self._presence.is_announced,
            "office": self._office.stage.value,
            "controller_epoch": self._office.epoch,
            "end": self._office.end,
            "committed": self._follower.fetched,
            "talks": self._talks.describe(),
        }

    # --- what ZooKeeper says --------------------------------------------------------------------

    def hear(self, word: Word, now: Now) -> None:
        if self.failure is not None:
            return
        if isinstance(word, Answered):
            self._advance(now, lambda: self._talks.answered(word, now.monotonic_ms))
        elif isinstance(word, WatchFired):
            self._on_watch(word.path, now)
        elif isinstance(word, SessionStarted):
            self._talks.open(word.session, word.timeout_ms)
            self._go_on(now)
        elif isinstance(word, SessionResumed):
            if self._talks.session != NO_SESSION and not self._talks.is_connected:
                self._talks.is_connected = True
                self.reports.append("ZooKeeper is there again, in the same session")
                self._go_on(now)
        elif isinstance(word, SessionSuspended):
            if self._talks.is_connected:
                self.reports.append(
                    "ZooKeeper can't be reached: what is known is served on, nothing is changed"
                )
            self._talks.suspend()
            self._office.suspend()
            self._look_ms = None
        else:
            assert isinstance(word, SessionExpired)
            self._expire()

    def _expire(self) -> None:
        if self._talks.session == NO_SESSION:
            return
        self.reports.append("the session with ZooKeeper is over: this node is fenced")
        self._talks.expire()
        self._office.leave()
        self._office.controller = None
        self._presence.lose()
        self._look_ms = None
        self.sessions_ended += 1

    def _go_on(self, now: Now) -> None:
        """A session has begun, or is back: everything is looked at anew."""
        now_ms, talks = now.monotonic_ms, self._talks
        self._look_ms = now_ms + talks.timeout_ms / _QUESTIONS_PER_SESSION
        self._advance(now, lambda: talks.begin("announce", self._arrive, now_ms))

    def _arrive(self) -> Talk:
        yield from self._presence.announce(self._talks.session)

    def _advance(self, now: Now, step: Callable[[], None]) -> None:
        """One step of some talk, and what begins because of it."""
        stage, was_arriving = self._office.stage, self._talks.is_under_way("announce")
        try:
            step()
        except DecodeError as error:
            self.failure = str(error)
            return
        now_ms = now.monotonic_ms
        has_arrived = was_arriving and not self._talks.is_under_way("announce")
        if has_arrived and self._presence.is_announced:
            self._look_at_all(now)
            self.note_broker_epoch(self._presence.epoch, now)
        if stage is Stage.IN_OFFICE and self._office.stage is Stage.OUTSIDE:
            self._talks.begin("follow", self._follower.follow, now_ms)
            self._look(now)
        self._write(now)

    def _look_at_all(self, now: Now) -> None:
        """What is watched, whether a watch has fired or not: the answers also renew the lease."""
        if self._presence.is_announced:
            now_ms = now.monotonic_ms
            self._talks.begin("follow", self._follower.follow, now_ms)
            self._talks.begin("look around", self._presence.look_around, now_ms)
            self._look(now)

    def _look(self, now: Now) -> None:
        session = self._talks.session
        may_stand = self._may_stand
        self._talks.begin(
            "look", lambda: self._office.look(session, may_stand=may_stand), now.monotonic_ms
        )

    def _may_stand(self) -> bool:
        return self._presence.is_announced

    def _write(self, now: Now) -> None:
        if self._office.has_work and not self._talks.is_under_way("write"):
            self._talks.begin("write", self._office.write, now.monotonic_ms)

    def _on_watch(self, path: str, now: Now) -> None:
        now_ms = now.monotonic_ms
        if path == HEAD:
            self._advance(now, lambda: self._talks.begin("follow", self._follower.follow, now_ms))
        elif path == CONTROLLER:
            self._look(now)
        elif path == IDS:
            self._talks.begin("look around", self._presence.look_around, now_ms)

"""What a node asks of each of its machines, whichever it is."""

from __future__ import annotations

from typing import Protocol

from tidelog.broker.cluster_member import ClusterMember
from tidelog.broker.coordinators import Coordinators
from tidelog.broker.effects import Effect
from tidelog.model.clock import Now


class Machine(Protocol):
    """A part of the node that waits for time."""

    @property
    def deadline_ms(self) -> float | None:
        """When `tick` is due, in monotonic milliseconds; None if it waits for nothing. Asked for
        after every turn: best a plain attribute."""

    def tick(self, now: Now, effects: list[Effect]) -> None:
        """Do what is due, which may be nothing."""


class Groups:
    """The coordinators as a machine."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    @property
    def deadline_ms(self) -> float | None:
        return self._coordinators.deadline_ms

    def tick(self, now: Now, effects: list[Effect]) -> None:
        deadline_ms = self._coordinators.deadline_ms
        if deadline_ms is not None and now.monotonic_ms >= deadline_ms:
            self._coordinators.tick(now)


class Membership:
    """What a member does for its cluster, as a machine. Many have a part in its deadline, so it is
    kept until something has happened that may have changed it."""

    def __init__(self, member: ClusterMember) -> None:
        self._member = member
        self.deadline_ms: float | None = None

    def look(self, *, may_have_changed: bool) -> None:
        """The end of a turn."""
        if may_have_changed:
            self.deadline_ms = self._member.next_deadline()
        self._member.expect(self.deadline_ms)

    def tick(self, now: Now, effects: list[Effect]) -> None:
        self._member.tick(now)

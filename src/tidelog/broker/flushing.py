"""Group commit: one flush at a time, and everything that arrives meanwhile shares the next.

A round costs much the same whatever is in it, so it also waits a moment for company, if there is
any to come. Those whom the last round answered are expected back: until all of them have written
again, the next round begins no sooner than `GATHER_MS` after the last one did. A client that writes
and waits, alone, is flushed at once every time; among many each waits a little, and all of them
share what a flush costs. Where a flush takes longer than that, nobody waits for company.

A round takes a ticket from every log written to since the last one. When the round is over, the
tickets say how far each log is durable, and whoever waited for that is answered. A failed round is
the end of writing: after a failed fsync the kernel may have dropped the pages and marked them
clean, so a second fsync would "succeed" without the data.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.broker.connections import Connection
from tidelog.broker.effects import Effect, StartFlush
from tidelog.log.disk import Syncable
from tidelog.log.log import FlushTicket
from tidelog.metadata.journal import MetadataJournal
from tidelog.model.clock import Now
from tidelog.partition.replica import Replica

GATHER_MS = 1.0
"""From the beginning of a round to that of the next, while others are expected. Much shorter, and
single records of a few thousand a second have a flush each; longer, and they wait for nothing."""


@dataclass(slots=True)
class Round:
    """A flush under way, and what will be durable after it."""

    number: int
    leaders: list[tuple[Replica, FlushTicket]] = field(default_factory=list)
    journal: FlushTicket | None = None


class Flushing:
    """What is dirty, and the round under way if there is one. `deadline_ms` is when a round that
    waits for company begins."""

    def __init__(self) -> None:
        self._dirty: dict[Replica, None] = {}
        self._directories: dict[str, Syncable] = {}
        self._is_journal_dirty = False
        self.is_dirty = False
        """There may be something for the next round."""
        self._is_urgent = False
        """Somebody other than clients waits for the next round."""
        self._rounds_started = 0
        self._began_ms = -GATHER_MS
        self._writers = 0
        """Connections with a write that the next round makes durable."""
        self._expected = 0
        """Connections that were in the last round, and have not written since."""
        self.under_way: Round | None = None
        self.deadline_ms: float | None = None

    def touch(self, replica: Replica, *, may_wait: bool = False) -> None:
        """The replica's log was written to and somebody waits for it: clients, which `may_wait` for
        one another, or others."""
        self._dirty[replica] = None
        self.is_dirty = True
        if not may_wait:
            self._is_urgent = True

    def touch_journal(self) -> None:
        self._is_journal_dirty = self.is_dirty = self._is_urgent = True

    def touch_directories(self, directories: list[Syncable]) -> None:
        for directory in directories:
            self._directories[directory.path] = directory
            self.is_dirty = self._is_urgent = True

    def write_waits(self, connection: Connection) -> None:
        """A client on the connection waits for something that the next round makes durable."""
        coming = self._rounds_started + 1
        if connection.flush_round != coming:
            if connection.flush_round == self._rounds_started:
                self._expected -= 1
            connection.flush_round = coming
            self._writers += 1

    def start(self, journal: MetadataJournal, now: Now) -> StartFlush | None:
        """The next round, unless one is under way, or there is nothing to flush, or it waits for
        company."""
        self.deadline_ms = None
        if self.under_way is not None or not self.is_dirty:
            return None
        if self._expected > 0 and not self._is_urgent:
            due_ms = self._began_ms + GATHER_MS
            if now.monotonic_ms < due_ms:
                self.deadline_ms = due_ms
                return None
        self._rounds_started += 1
        flush_round = Round(self._rounds_started)
        targets: list[Syncable] = list(self._directories.values())
        for leader in self._dirty:
            ticket = None if leader.is_gone else leader.flush_ticket()
            if ticket is not None:
                flush_round.leaders.append((leader, ticket))
                targets += ticket.targets
        if self._is_journal_dirty and (ticket := journal.flush_ticket()) is not None:
            flush_round.journal = ticket
            targets += ticket.targets
        self._dirty = {}
        self._directories = {}
        self._is_journal_dirty = self.is_dirty = self._is_urgent = False
        self._expected, self._writers = self._writers, 0
        self._began_ms = now.monotonic_ms
        if not targets:
            return None
        self.under_way = flush_round
        return StartFlush(flush_round.number, tuple(targets))

    def finish(self, number: int) -> Round | None:
        """The round that is over; None if it is not the one under way."""
        flush_round = self.under_way
        if flush_round is None or flush_round.number != number:
            return None
        self.under_way = None
        return flush_round

    def give_back(self, flush_round: Round) -> None:
        """Everything of a failed round is dirty again."""
        for leader, _ in flush_round.leaders:
            self._dirty[leader] = None
        self._is_journal_dirty = self._is_journal_dirty or flush_round.journal is not None
        self.is_dirty = True

    def rest(self) -> None:
        """Nothing will be flushed any more: the disk has failed."""
        self.deadline_ms = None

    def tick(self, now: Now, effects: list[Effect]) -> None:
        """The end of the turn begins what is due."""

    def describe(self) -> dict[str, object]:
        return {
            "rounds": self._rounds_started,
            "under_way": self.under_way is not None,
            "dirty": len(self._dirty),
        }

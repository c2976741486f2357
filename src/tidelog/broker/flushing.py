"""Group commit: one flush at a time, and everything that arrives meanwhile shares the next.

A round takes a ticket from every log written to since the last one. When the round is over, the
tickets say how far each log is durable, and whoever waited for that is answered. A failed round is
the end of writing: after a failed fsync the kernel may have dropped the pages and marked them
clean, so a second fsync would "succeed" without the data.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.broker.effects import StartFlush
from tidelog.log.disk import Syncable
from tidelog.log.log import FlushTicket
from tidelog.metadata.journal import MetadataJournal
from tidelog.partition.replica import Replica


@dataclass(slots=True)
class Round:
    """A flush under way, and what will be durable after it."""

    number: int
    leaders: list[tuple[Replica, FlushTicket]] = field(default_factory=list)
    journal: FlushTicket | None = None


class Flushing:
    """What is dirty, and the round under way if there is one."""

    def __init__(self) -> None:
        self._dirty: dict[Replica, None] = {}
        self._directories: dict[str, Syncable] = {}
        self._is_journal_dirty = False
        self.is_dirty = False
        """There may be something for the next round."""
        self._rounds_started = 0
        self.under_way: Round | None = None

    def touch(self, leader: Replica) -> None:
        """The leader's log was written to and somebody waits for it."""
        self._dirty[leader] = None
        self.is_dirty = True

    def touch_journal(self) -> None:
        self._is_journal_dirty = self.is_dirty = True

    def touch_directories(self, directories: list[Syncable]) -> None:
        for directory in directories:
            self._directories[directory.path] = directory
            self.is_dirty = True

    def start(self, journal: MetadataJournal) -> StartFlush | None:
        """The next round, unless one is under way or there is nothing to flush."""
        if self.under_way is not None or not self.is_dirty:
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
        self._is_journal_dirty = self.is_dirty = False
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

    def describe(self) -> dict[str, object]:
        return {
            "rounds": self._rounds_started,
            "under_way": self.under_way is not None,
            "dirty": len(self._dirty),
        }

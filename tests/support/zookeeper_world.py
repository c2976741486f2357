"""Journals on a simulated ZooKeeper, without the rest of a node: for tests of the machine alone."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tidelog.metadata.image import Image
from tidelog.metadata.records import MetadataRecord
from tidelog.model.clock import Now
from tidelog.model.ids import Endpoint, NodeId, Offset
from tidelog.sim.schedule import Schedule
from tidelog.sim.zookeeper import ZooKeeperLink, ZooKeeperService
from tidelog.zookeeper.journal import ZooKeeperJournal
from tidelog.zookeeper.presence import Self
from tidelog.zookeeper.requests import (
    NO_SESSION,
    Change,
    Children,
    Get,
    Got,
    Listed,
    Word,
    Write,
    Written,
)

TIMEOUT_MS = 300.0


class Member:
    """One journal, and the image that its committed records make."""

    def __init__(
        self,
        world: World,
        number: int,
        *,
        last_epoch: int = -1,
        records_per_snapshot: int = 1000,
    ) -> None:
        self.node_id = NodeId(number)
        self._world = world
        self.image = Image()
        self.ahead = Image()
        self.reports: list[str] = []
        own = Self(self.node_id, Endpoint(f"host{number}", 9092), None, last_epoch)
        self.journal = ZooKeeperJournal(own, records_per_snapshot=records_per_snapshot)
        self.journal.connect(
            endpoint_of=lambda node_id: None,
            answer=lambda number, response: None,
            want_flush=lambda: None,
            newest_image=lambda: self.ahead,
        )
        self.link = ZooKeeperLink(
            world.service,
            self.node_id,
            timeout_ms=TIMEOUT_MS,
            is_running=lambda: True,
            on_word=self._hear,
        )

    def propose(self, *records: MetadataRecord) -> Offset:
        offset = self.journal.append(records, self._world.now)
        self.ahead, _ = self.ahead.replay(records)
        self._settle()
        return offset

    def keep_snapshot(self) -> None:
        self.journal.keep_snapshot(self.image, self._world.now)
        self._settle()

    def tell_epoch(self, epoch: int) -> None:
        self.journal.note_broker_epoch(epoch, self._world.now)
        self._settle()

    def tick(self) -> None:
        self.journal.tick(self._world.now)
        self._settle()

    def _hear(self, word: Word) -> None:
        self.journal.hear(word, self._world.now)
        self._settle()

    def _settle(self) -> None:
        restored = self.journal.take_restored()
        if restored is not None:
            self.image = restored
        self.image, _ = self.image.replay(self.journal.take_committed())
        if not self.journal.is_active:
            self.ahead = self.image
        self.journal.validate()
        self.reports += self.journal.reports
        self.journal.reports = []
        for effect in self.journal.take_effects():
            self.link.ask(effect)


class World:
    """Time, an ensemble, and the members that a test adds."""

    def __init__(self, seed: int = 1) -> None:
        self.schedule = Schedule()
        self.service = ZooKeeperService(self.schedule, Random(seed))
        self.members: list[Member] = []

    @property
    def now(self) -> Now:
        return Now(self.schedule.now_ms, int(self.schedule.now_ms))

    def add(self, number: int, *, last_epoch: int = -1, records_per_snapshot: int = 1000) -> Member:
        member = Member(
            self, number, last_epoch=last_epoch, records_per_snapshot=records_per_snapshot
        )
        self.members.append(member)
        return member

    def run_until(self, condition: Callable[[], bool], *, within_ms: float = 5_000.0) -> None:
        until_ms = self.schedule.now_ms + within_ms
        while not condition():
            assert self.schedule.now_ms < until_ms, [m.journal.describe() for m in self.members]
            self.run(1.0)

    def run(self, duration_ms: float) -> None:
        until_ms = self.schedule.now_ms + duration_ms
        while self.schedule.now_ms < until_ms:
            self.schedule.run(until_ms=self.schedule.now_ms + 1.0)
            for member in self.members:
                deadline_ms = member.journal.next_deadline()
                if deadline_ms is not None and deadline_ms <= self.schedule.now_ms:
                    member.tick()

    # --- as somebody else with a client ---------------------------------------------------------

    def read(self, path: str) -> bytes | None:
        found = self.service.perform(NO_SESSION, Get(path))
        return found.data if isinstance(found, Got) else None

    def names(self, path: str) -> tuple[str, ...]:
        found = self.service.perform(NO_SESSION, Children(path))
        return found.names if isinstance(found, Listed) else ()

    def write(self, *changes: Change) -> None:
        assert self.service.perform(NO_SESSION, Write(changes)) == Written()

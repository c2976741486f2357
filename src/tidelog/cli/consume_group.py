"""Printing records as a member of a group: at least once, so commit only what is printed.

Records are taken as they have come, printed, flushed to whoever reads us, and then committed
together. A kill in between prints some of them again, next time; nothing is left out.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Literal

from tidelog.cli.start_point import StartPoint
from tidelog.client import Admin, Connection, Message
from tidelog.client.damage import OnDamage
from tidelog.client.errors import GroupError
from tidelog.client.inbox import Inbox, Subscription

TAKEN_AT_ONCE = 1000
"""Records between two commits, if so many are there: a commit waits for the disk."""

EAGER_ASSIGNORS = ("range", "roundrobin")
"""Those of Kafka's older assignors that librdkafka has, too."""

WAIT_S = 0.1
TERMINATED = 143
"""The exit code of whoever ends by SIGTERM."""


@dataclass(frozen=True, slots=True)
class GroupReading:
    """What to read, as whom, and until when."""

    group: str
    topics: list[str]
    start: StartPoint
    protocol: Literal["classic", "consumer"]
    max_records: int | None
    exit_at_end: bool
    skip_damaged: bool = False

    @property
    def subscription(self) -> Subscription:
        return Subscription(
            self.topics,
            group=self.group,
            start="earliest" if self.start.kind == "beginning" else "latest",
            protocol=self.protocol,
            until_end=self.exit_at_end,
            skip_damaged=self.skip_damaged,
        )


def print_as_member(
    connection: Connection,
    reading: GroupReading,
    writer: Callable[[Message], bytes],
    *,
    on_broker_lost: Callable[[], None],
    on_damage: OnDamage,
) -> None:
    """Until `reading` is done. However it ends, the group hears at once that we left."""
    connection = _fitting(connection, reading)
    with _leaving_on_sigterm():
        inbox = Inbox(
            connection,
            reading.subscription,
            on_broker_lost=on_broker_lost,
            on_damage=on_damage,
        )
        try:
            _print_all(inbox, reading, writer)
        finally:
            inbox.close()


def _fitting(connection: Connection, reading: GroupReading) -> Connection:
    """Members of a classic group must have an assignor in common. Ours is cooperative; who joins
    a running group of another kind takes that group's."""
    if reading.protocol == "consumer":
        return connection
    for group in Admin(connection).described([reading.group]):
        if group.members and group.assignor in EAGER_ASSIGNORS:
            options = {**connection.options, "partition.assignment.strategy": group.assignor}
            return replace(connection, options=options)
    return connection


def _print_all(inbox: Inbox, reading: GroupReading, writer: Callable[[Message], bytes]) -> None:
    output = sys.stdout.buffer
    left = reading.max_records
    while left is None or left > 0:
        count = TAKEN_AT_ONCE if left is None else min(left, TAKEN_AT_ONCE)
        messages = inbox.take_many(count, WAIT_S)
        if messages:
            output.writelines(map(writer, messages))
            output.flush()
            _commit(inbox, messages)
        if left is not None:
            left -= len(messages)
        if reading.exit_at_end and inbox.is_at_end:
            return


def _commit(inbox: Inbox, messages: list[Message]) -> None:
    """A commit in the middle of a rebalance is refused: the next one covers it, or, if the
    partitions went to another member, that one prints the records again."""
    for message in {(each.topic, each.partition): each for each in messages}.values():
        inbox.processed(message)
    try:
        inbox.commit()
    except GroupError:
        return


@contextmanager
def _leaving_on_sigterm() -> Iterator[None]:
    """A member that just vanishes keeps its partitions until its session times out."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

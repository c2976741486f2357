"""Reading topics: one message after the other, alone or as a member of a group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import confluent_kafka

from tidelog.client.connection import Bootstrap, connection_to
from tidelog.client.inbox import Inbox, Processing, Protocol, Start, Subscription
from tidelog.client.message import Message

_POLL_S = 0.2
"""Between two looks at whether to stop; a message that comes is handed over at once."""


class Consumer:
    """Iterates over messages, for ever unless told otherwise.

    ::

        with Consumer("orders", group="billing") as consumer:
            for message in consumer:
                bill(message.value)

    Processing is *at least once*: a message counts as processed when its turn of the loop is over,
    and comes again if an exception or a crash ended it before. `processing="at-most-once"`
    commits before handing over. Without a group all partitions are read and nothing is committed.
    """

    def __init__(
        self,
        *topics: str,
        group: str | None = None,
        processing: Processing = "at-least-once",
        start: Start = "earliest",
        protocol: Protocol = "classic",
        instance_id: str | None = None,
        until_end: bool = False,
        idle_timeout_s: float | None = None,
        skip_damaged: bool = False,
        bootstrap: Bootstrap = None,
    ) -> None:
        """`start` is where to begin if the group has committed nothing. `until_end` ends the loop
        when everything assigned is read, `idle_timeout_s` when nothing came for so long.
        `protocol="consumer"` lets the broker assign partitions (KIP-848); an `instance_id` makes
        the member static: it may restart without a rebalance. A batch that lies in the log and
        can't be read is a `DamagedBatch`, or with `skip_damaged` is passed over and logged."""
        self._idle_timeout_s = idle_timeout_s
        self._current: Message | None = None
        self._is_stopping = False
        self._is_closed = False
        self._inbox = Inbox(
            connection_to(bootstrap),
            Subscription(
                topics,
                group=group,
                processing=processing,
                start=start,
                protocol=protocol,
                instance_id=instance_id,
                until_end=until_end,
                skip_damaged=skip_damaged,
            ),
        )

    @property
    def client(self) -> confluent_kafka.Consumer:
        """librdkafka's consumer, for what this class does not have."""
        return self._inbox.client

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        self._finish_current()
        silent_since = time.monotonic()
        while not self._is_stopping and not self._is_closed:
            message = self.poll(_POLL_S)
            if message is not None:
                return message
            if self._inbox.is_at_end:
                break
            idle_s = time.monotonic() - silent_since
            if self._idle_timeout_s is not None and idle_s >= self._idle_timeout_s:
                break
        raise StopIteration

    def poll(self, timeout_s: float) -> Message | None:
        """One message, or None if none came in time. The one before it counts as processed."""
        self._finish_current()
        self._current = self._inbox.take(timeout_s)
        return self._current

    def commit(self) -> None:
        """Everything handed over so far, the current message included, is processed: write that
        down now. Before a `break`, for instance, which says nothing about the current message."""
        self._finish_current()
        self._inbox.commit()

    def stop(self) -> None:
        """End the loop after the current message; from a signal handler or another thread, too."""
        self._is_stopping = True

    def close(self) -> None:
        """Commit what is processed, and leave the group."""
        if not self._is_closed:
            self._is_closed = True
            self._inbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _finish_current(self) -> None:
        if self._current is not None:
            message, self._current = self._current, None
            self._inbox.processed(message)

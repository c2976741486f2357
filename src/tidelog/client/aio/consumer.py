"""Reading topics on an event loop.

librdkafka waits for messages in a thread; what it has received by then is handed over one by one.
A task that is cancelled while it waits loses nothing: what comes meanwhile is kept for the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from tidelog.client.connection import Bootstrap, connection_to
from tidelog.client.errors import ClientError
from tidelog.client.inbox import Inbox, Processing, Protocol, Start, Subscription
from tidelog.client.message import Message

_POLL_S = 0.2
_TAKEN_AT_ONCE = 100
"""Messages per visit to the thread. More would delay a rebalance: partitions are given up only
between two visits."""


class Consumer:
    """::

        async with Consumer("orders", group="billing") as consumer:
            async for message in consumer:
                await bill(message.value)

    Arguments and meaning are those of `tidelog.Consumer`.
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
        self._connection = connection_to(bootstrap)
        self._subscription = Subscription(
            topics,
            group=group,
            processing=processing,
            start=start,
            protocol=protocol,
            instance_id=instance_id,
            until_end=until_end,
            skip_damaged=skip_damaged,
        )
        self._idle_timeout_s = idle_timeout_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidelog-consumer")
        self._inbox: Inbox | None = None
        self._received: deque[Message] = deque()
        self._current: Message | None = None
        self._is_stopping = False

    async def start(self) -> None:
        """Connect and subscribe; `async with` does it. `NoBroker` if nobody answers."""
        loop = asyncio.get_running_loop()
        self._inbox = await loop.run_in_executor(
            self._thread, Inbox, self._connection, self._subscription
        )

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        loop = asyncio.get_running_loop()
        silent_since = loop.time()
        while not self._is_stopping:
            message = await self.poll(_POLL_S)
            if message is not None:
                return message
            if self._opened.is_at_end:
                break
            idle_s = loop.time() - silent_since
            if self._idle_timeout_s is not None and idle_s >= self._idle_timeout_s:
                break
        raise StopAsyncIteration

    async def poll(self, timeout_s: float) -> Message | None:
        """One message, or None if none came in time. The one before it counts as processed."""
        self._finish_current()
        if not self._received:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._receive, self._opened, timeout_s)
        self._current = self._received.popleft() if self._received else None
        return self._current

    async def commit(self) -> None:
        """Everything handed over so far, the current message included, is processed: write that
        down now."""
        self._finish_current()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._opened.commit)

    def stop(self) -> None:
        """End the loop after the current message."""
        self._is_stopping = True

    async def close(self) -> None:
        """Commit what is processed, and leave the group."""
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, inbox.close)
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def _opened(self) -> Inbox:
        if self._inbox is None:
            raise ClientError("the consumer is not open: use it in `async with Consumer(...)`")
        return self._inbox

    def _receive(self, inbox: Inbox, timeout_s: float) -> None:
        """In the thread. Into the deque rather than as a result, which a cancelled task drops."""
        self._received.extend(inbox.take_many(_TAKEN_AT_ONCE, timeout_s))

    def _finish_current(self) -> None:
        if self._current is not None:
            message, self._current = self._current, None
            self._opened.processed(message)

"""Sending records from an event loop.

One thread per producer waits for librdkafka's answers and hands them to the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Generator
from types import TracebackType
from typing import Any, Self

from tidelog.client.connection import Bootstrap, connection_to
from tidelog.client.errors import ClientError, not_delivered
from tidelog.client.message import Headers, Receipt
from tidelog.client.outbox import Outbox

_POLL_S = 0.1
_FULL_PAUSE_S = 0.01
"""Before a full queue is tried again; librdkafka empties it in the meantime."""


class Delivery(Awaitable[Receipt]):
    """The fate of one record: `await` it. A failure that nobody awaits is raised at the end."""

    def __init__(self, future: asyncio.Future[Receipt]) -> None:
        self._future = future
        self.is_heard = False

    def done(self) -> bool:
        return self._future.done()

    def __await__(self) -> Generator[Any, None, Receipt]:
        self.is_heard = True
        return self._future.__await__()

    def settle(self, receipt: Receipt | None, error: ClientError | None) -> None:
        """For the producer to call, once. Who waits may have been cancelled meanwhile."""
        if self._future.done():
            return
        if receipt is not None:
            self._future.set_result(receipt)
        elif error is not None:
            self._future.set_exception(error)
            self._future.exception()  # Heard by us: asyncio need not warn.


class Producer:
    """::

        async with Producer() as producer:
            receipt = await producer.send("orders", "2 apples", key="alice")

    `send` waits for the acknowledgement; `enqueue` gives a `Delivery` to await later, so that many
    can be on their way. At the end of the block all have arrived; what failed unheard is raised.
    """

    def __init__(
        self,
        bootstrap: Bootstrap = None,
        *,
        acks: str = "all",
        compression: str = "none",
        linger_ms: int = 0,
        delivery_timeout_ms: int = 30_000,
    ) -> None:
        """No linger by default: a task that waits for its record should not wait longer."""
        self._connection = connection_to(bootstrap)
        self._options = (acks, compression, linger_ms, delivery_timeout_ms)
        self._outbox: Outbox | None = None
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._outstanding = 0
        self._nothing_outstanding = asyncio.Event()
        self._nothing_outstanding.set()
        self._failures: list[tuple[Delivery, ClientError]] = []

    async def start(self) -> None:
        """Connect; `async with` does it. `NoBroker` if nobody answers."""
        self._outbox = await asyncio.to_thread(self._make_outbox)
        self._thread = threading.Thread(
            target=self._serve, args=(self._outbox,), name="tidelog-producer", daemon=True
        )
        self._thread.start()

    async def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt:
        """Send one record and wait until it is acknowledged."""
        return await (
            await self.enqueue(
                topic,
                value,
                key=key,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
            )
        )

    async def enqueue(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Queue one record, and wait only for room in the queue."""
        if self._outbox is None or self._is_closing:
            raise ClientError("the producer is not open: use it in `async with Producer(...)`")
        loop = asyncio.get_running_loop()
        delivery = Delivery(loop.create_future())

        def arrived(receipt: Receipt | None, error: ClientError | None) -> None:
            loop.call_soon_threadsafe(self._arrived, delivery, receipt, error)

        while not self._outbox.offer(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            arrived=arrived,
        ):
            await asyncio.sleep(_FULL_PAUSE_S)
        self._outstanding += 1
        self._nothing_outstanding.clear()
        return delivery

    async def flush(self) -> None:
        """Wait until everything sent so far is acknowledged or has failed."""
        if self._outbox is not None:
            await asyncio.to_thread(_flush, self._outbox)
        await self._nothing_outstanding.wait()

    async def close(self) -> None:
        """Wait for everything; a `ClientError` if something failed that nobody has heard of."""
        await self.flush()
        self._is_closing = True
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        unheard = [error for delivery, error in self._failures if not delivery.is_heard]
        self._failures = []
        if unheard:
            raise not_delivered(unheard[0], len(unheard))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except ClientError:
            if error is None:
                raise

    def _arrived(
        self, delivery: Delivery, receipt: Receipt | None, error: ClientError | None
    ) -> None:
        delivery.settle(receipt, error)
        if error is not None:
            self._failures.append((delivery, error))
        self._outstanding -= 1
        if not self._outstanding:
            self._nothing_outstanding.set()

    def _make_outbox(self) -> Outbox:
        acks, compression, linger_ms, delivery_timeout_ms = self._options
        return Outbox(
            self._connection,
            acks=acks,
            compression=compression,
            linger_ms=linger_ms,
            delivery_timeout_ms=delivery_timeout_ms,
        )

    def _serve(self, outbox: Outbox) -> None:
        while not self._is_closing:
            outbox.serve(_POLL_S)


def _flush(outbox: Outbox) -> None:
    while not outbox.flush(_POLL_S):
        pass

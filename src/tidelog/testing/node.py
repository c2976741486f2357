"""`Node`: a broker as an object in a test's hand."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Self

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.node import Node as BrokerNode
from tidelog.client.message import Headers, Message, as_bytes
from tidelog.model.errors import ErrorCode
from tidelog.model.settings import parse_settings
from tidelog.runtime.service import ServeError, ServeOptions, Service, lock_data_directory
from tidelog.testing.clock import MovableClock
from tidelog.testing.direct import direct_client
from tidelog.testing.disk import FillableDisk, Reads, Room
from tidelog.testing.faults import Delay, Fault, Faults, Loss, Refusal, error_named
from tidelog.testing.gate import Gate
from tidelog.testing.node_error import NodeError
from tidelog.testing.thread import PATIENCE_S, ServiceThread
from tidelog.wire.records import Record

Setting = str | int | float | bool

_HOST = "127.0.0.1"
_SOON_MS = 10
"""Work in slices, such as compaction, is due again a little later: `advance` waits for that."""


class Node:
    """A running broker. `with Node() as node:` ends it and removes its directory.

    `settings` are the node's, by Kafka's names (`{"num.partitions": 4}`). With a `data_dir` of your
    own, the data is kept, and the node is stopped cleanly at the end. Its clock is the test's to
    move, so `clock.steady.ms` is 0 unless given: retention by age works from the start. And
    `metadata.reserve.bytes` is 0: a disk that has room again is written to at once.
    """

    def __init__(
        self,
        settings: Mapping[str, Setting] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        believing: Mapping[str, Setting] = {
            "clock.steady.ms": 0,
            "metadata.reserve.bytes": 0,
            **(settings or {}),
        }
        self._settings = parse_settings(_texts(believing), "node")
        self._is_temporary = data_dir is None
        self._clock = MovableClock()
        self._faults = Faults()
        self._room = Room()
        self._reads = Reads()
        self._port_holder = _bound_socket()
        self.data_dir = Path(data_dir or tempfile.mkdtemp(prefix="tidelog-"))
        self.host = _HOST
        self.port: int = self._port_holder.getsockname()[1]
        self._lock: int | None = None
        self._gate: Gate | None = None
        self._disk: FillableDisk | None = None
        try:
            self._thread = self._start()
        except BaseException:
            self._let_go()
            raise

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT`, for `bootstrap.servers`. The same for as long as the object lives."""
        return f"{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._thread.is_running

    # --- topics and records -------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, **settings: Setting) -> None:
        """`node.create_topic("orders", 3, retention_ms=1000)`."""
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        self._need_to_answer()
        with direct_client(self.host, self.port) as client:
            client.create_topic(name, partitions=partitions, settings=_texts(dotted))

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        partition: int = 0,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> list[int]:
        """Append records, and wait until they are acknowledged; gives their offsets.

        A topic that does not exist is created. The timestamp is the node's time, advanced or not.
        """
        self._need_to_answer()
        time_ms = self._clock().wall_ms if timestamp_ms is None else timestamp_ms
        pairs = [(name, as_bytes(value)) for name, value in headers]
        records = [Record(0, time_ms, as_bytes(key), as_bytes(value), pairs) for value in values]
        if not records:
            return []
        with direct_client(self.host, self.port) as client:
            if not client.partitions(topic):
                client.create_topic(topic, partitions=-1, settings={})
            first = client.produce(topic, partition, records)
        return list(range(first, first + len(records)))

    def records(self, topic: str, partition: int | None = None) -> list[Message]:
        """All records that consumers can read now, partition by partition, in their order."""
        self._need_to_answer()
        with direct_client(self.host, self.port) as client:
            partitions = client.partitions(topic)
            if not partitions:
                raise NodeError(f"there is no topic {topic!r}")
            chosen = partitions if partition is None else [partition]
            return [message for each in chosen for message in client.records(topic, each)]

    def describe(self) -> dict[str, object]:
        """The broker's own view of itself: partitions, connections, requests that wait."""
        return self._thread.call(lambda _: self._machine.node.describe())

    # --- faults -------------------------------------------------------------------------------

    def fail(self, api: str, *, error: str | ErrorCode, times: int | None = 1) -> Fault:
        """The next `times` requests of that API are answered with `error`, and not executed."""
        return self._faults.add(Refusal(api, times, error=error_named(error)))

    def delay(self, api: str, *, ms: float, times: int | None = 1) -> Fault:
        """The next `times` requests of that API, and what their connections send after them, reach
        the broker so much later."""
        return self._faults.add(Delay(api, times, delay_ms=ms))

    def lose_response(self, api: str, *, times: int | None = 1) -> Fault:
        """The next `times` requests of that API are executed, but their clients find the connection
        closed instead of an answer."""
        return self._faults.add(Loss(api, times))

    def drop_connections(self) -> None:
        """Every client finds its connection reset."""
        self._thread.call(Service.drop_connections)

    def fill_disk(self) -> None:
        """No file grows any more, until `free_disk`."""
        self._room.is_full = True

    def free_disk(self) -> None:
        self._room.is_full = False

    def hold_reads(self) -> None:
        """The disk is so slow that nothing comes from it, until `release_reads`. Records that were
        written since the start and are among the last of their partition are in memory; who asks
        for others waits."""
        self._reads.hold()

    def release_reads(self) -> None:
        self._reads.release()

    def pause(self) -> None:
        """Stand still, as a process on SIGSTOP: connections are open and nobody answers."""
        self._thread.pause()

    def resume(self) -> None:
        self._thread.resume()

    def heal(self) -> None:
        """No more faults: as if none had been asked for. A crashed node stays down."""
        self._faults.lift_all()
        self.free_disk()
        self.release_reads()
        self.resume()

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Move the node's clocks, and return when what has become due is done: timeouts, long
        polls, retention, compaction.

        Clients keep their own time: the records they send carry it, and a member of a group whose
        session is over by the node's clock has to join again.
        """
        total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        self._clock.advance(round(total_s * 1000))
        if self.is_running:
            self._catch_up()

    # --- life and death -----------------------------------------------------------------------

    def crash(self) -> None:
        """As `kill -9`: what was in memory is gone, nothing more is flushed or answered."""
        self._thread.kill()
        self._release()

    def stop(self) -> None:
        """Cleanly, as `tidelog serve` on SIGTERM. `restart` starts it again."""
        if self.is_running:
            self.resume()
            self._thread.stop()
        self._release()

    def restart(self) -> None:
        """On the same port and the same data; a node that runs is stopped cleanly first."""
        self.stop()
        self._thread = self._start()

    def close(self) -> None:
        """The end: a temporary directory goes too."""
        try:
            if self._is_temporary:
                self._thread.kill()
            else:
                self.stop()
        finally:
            self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "running" if self.is_running else "down"
        return f"<Node {self.bootstrap} {state}, data in {self.data_dir}>"

    # --- within -------------------------------------------------------------------------------

    @property
    def _machine(self) -> Gate:
        assert self._gate is not None
        return self._gate

    def _start(self) -> ServiceThread:
        try:
            self._lock = lock_data_directory(self.data_dir)
        except ServeError as error:
            raise NodeError(str(error)) from None
        return ServiceThread(self._make_service)

    def _make_service(self, loop: asyncio.AbstractEventLoop) -> Service:
        options = ServeOptions(
            self.data_dir, host=self.host, port=self.port, settings=self._settings
        )
        return Service(loop, options, clock=self._clock, make_node=self._make_machine)

    def _make_machine(self, config: NodeConfig, data_dir: Path) -> Gate:
        self._disk = FillableDisk(data_dir, self._room, self._reads)
        node = BrokerNode(config, self._disk, SystemRandom(), handlers=self._faults.handlers())
        self._gate = Gate(node, self._faults)
        return self._gate

    def _catch_up(self) -> None:
        """Until nothing is due, nor will be at once, and what was written by then is flushed."""
        self._thread.call(Service.wake)
        flushing = self._machine.node.state.flushing
        under_way = self._thread.call(lambda _: flushing.under_way)
        enough = 0 if under_way is None else under_way.number + 1

        def is_settled(service: Service) -> bool:
            deadline_ms = self._machine.next_deadline()
            is_due = (
                deadline_ms is not None and deadline_ms <= self._clock().monotonic_ms + _SOON_MS
            )
            now_under_way = flushing.under_way
            return not is_due and (now_under_way is None or now_under_way.number > enough)

        give_up = time.monotonic() + PATIENCE_S
        while not self._thread.call(is_settled) and time.monotonic() < give_up:
            time.sleep(0.001)

    def _need_to_answer(self) -> None:
        """A node that is down or paused is said to be, instead of waited for."""
        self._thread.call(lambda _: None)

    def _release(self) -> None:
        """What the end of a process gives back to the system."""
        if self._disk is not None:
            self._disk.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _let_go(self) -> None:
        self._reads.release()
        self._release()
        self._port_holder.close()
        if self._is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)


def _texts(settings: Mapping[str, Setting]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }


def _bound_socket() -> socket.socket:
    """A free port, kept: bound and never listened on, it is given to nobody else while the node is
    down, and the node itself may bind it too (both say `SO_REUSEADDR`)."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((_HOST, 0))
    return sock

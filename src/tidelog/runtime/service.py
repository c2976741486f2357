"""A node as a process: one event loop, threads for what blocks, one place that carries out
effects."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any, Protocol, TypeVar

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effects import (
    Announce,
    CallPeer,
    CloseConnection,
    Effect,
    HangUp,
    PauseReading,
    ReadRange,
    Report,
    ResumeReading,
    SendResponse,
    StartFlush,
    Stop,
)
from tidelog.broker.events import (
    ConnectionClosed,
    ConnectionOpened,
    Event,
    FlushDone,
    FrameReceived,
    StopRequested,
    Tick,
)
from tidelog.broker.node import Node
from tidelog.broker.start import StartRefused
from tidelog.log.disk import DiskError
from tidelog.model.clock import Now
from tidelog.model.cluster_settings import parse_ensemble
from tidelog.model.ids import ConnectionId, NodeId
from tidelog.model.settings import InvalidSetting, NodeSettings, Value, node_settings
from tidelog.runtime.connection import SocketConnection
from tidelog.runtime.file_disk import FileDisk
from tidelog.runtime.flusher import Flusher
from tidelog.runtime.listener import Listener, connection_room, raise_descriptor_limit
from tidelog.runtime.peers import PeerSockets
from tidelog.runtime.range_readers import RangeReaders
from tidelog.runtime.receive_pool import ReceivePool
from tidelog.runtime.turns import Turns
from tidelog.runtime.wall_clock import wall_clock_ms
from tidelog.runtime.zookeeper import KazooMissing, ZooKeeperDoor
from tidelog.zookeeper.requests import AskZooKeeper

log = logging.getLogger("tidelog")

T = TypeVar("T")

_SWITCH_INTERVAL_S = 0.0005
"""How long the flush thread, when a flush is done, waits for a busy loop to let it say so. Python's
own 5 ms would be most of what an acknowledgement takes beside a busy client."""

_LOOK_AFTER_S = 0.5
"""How often the frames that connections are receiving are looked at."""

_NEEDS_ASSERTIONS = (
    "a node does not run with python -O or PYTHONOPTIMIZE: assertions are how it notices that it "
    "is wrong itself, and stops before it damages data; start it without"
)

_new_tuple = tuple.__new__  # of a named tuple, without a call of its own

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What `tidelog serve` was told. `advertised`: the host clients are sent to, if not `host`."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 9092
    node_id: int = 1
    advertised: str | None = None
    settings: dict[str, Value] = field(default_factory=dict)


class ServeError(Exception):
    """The node can't start; the message is one line for the user that says what to do."""


def serve(options: ServeOptions) -> int:
    """Run a node until SIGTERM or SIGINT; prints `ready HOST:PORT` once clients may connect."""
    lock = lock_data_directory(options.data_dir)
    raise_descriptor_limit()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(options))
    finally:
        os.close(lock)
    return 0


class Machine(Protocol):
    """What a service runs: a `Node`, or something around one (`tidelog.testing`)."""

    def start(self, now: Now) -> list[Effect]: ...

    def receive(self, now: Now, event: Event) -> list[Effect]: ...

    def settle(self, now: Now) -> list[Effect]: ...

    def next_deadline(self) -> float | None: ...


def system_clock() -> Now:
    return _new_tuple(Now, (time.monotonic() * 1000, wall_clock_ms()))


def node_on_files(config: NodeConfig, data_dir: Path) -> Machine:
    return Node(config, FileDisk(data_dir), SystemRandom())


class Service:
    """Events to the node, effects to the world. Clock and node may be others than the usual."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ServeOptions,
        *,
        clock: Callable[[], Now] = system_clock,
        make_node: Callable[[NodeConfig, Path], Machine] = node_on_files,
    ) -> None:
        self._loop = loop
        self._options = options
        self._clock = clock
        self._settings = node_settings(options.settings)
        self._connections: dict[ConnectionId, SocketConnection] = {}
        self._next_connection = 1
        self._max_connections = min(self._settings.max_connections, connection_room())
        self._connections_from: Counter[str] = Counter()
        self._receive_pool = ReceivePool(
            max(self._settings.queued_max_request_bytes, self._settings.socket_request_max_bytes),
            largest=self._settings.socket_request_max_bytes,
        )
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: float | None = None
        self._turns = Turns(loop, begin=self._begin_turn, end=self._end_turn)
        self._turn_now: Now | None = None
        """While a turn is on, what the clock said when it began."""
        self._flusher = Flusher(self._flush_done_in_thread)
        self._readers = RangeReaders(self._call_from_thread, self._step)
        self._peers = PeerSockets(
            self._turns,
            max_frame_bytes=self._settings.socket_request_max_bytes,
            on_event=self._step,
        )
        self._zookeeper = _zookeeper(loop, self._settings, self._step)
        self._is_flushing = False
        self._is_stopping = False
        self._is_broken = False
        self.stopped: asyncio.Future[None] = loop.create_future()
        self.on_ready: Callable[[], None] | None = None
        self.listener = _listen(loop, options, self._on_connection)
        self._config = self._node_config()
        self._node = make_node(self._config, options.data_dir)
        self._carry_out: dict[type[Effect], Callable[[Any], None]] = {
            CloseConnection: self._close,
            PauseReading: self._pause,
            ResumeReading: self._resume,
            StartFlush: self._flush,
            ReadRange: self._readers.load,
            CallPeer: self._peers.call,
            HangUp: self._peers.hang_up,
            AskZooKeeper: self._ask_zookeeper,
            Announce: self._announce,
            Report: self._report,
            Stop: self._stop,
        }

    def start(self) -> None:
        self._flusher.start()
        if not __debug__:
            raise ServeError(_NEEDS_ASSERTIONS)
        try:
            effects = self._node.start(self._clock())
        except (StartRefused, DiskError) as error:
            raise ServeError(str(error)) from None
        self._perform(effects)
        self._arm_timer(self._node.next_deadline())
        try:
            self.listener.start()
        except OSError as error:
            raise _not_listening(self._options, error) from None
        if self._zookeeper is not None:
            self._zookeeper.start()
        self._look_after_connections()

    def request_stop(self) -> None:
        """Not while a flush is under way: were it to fail, the stop's own flush of the same file
        would succeed, since the kernel reports such an error once."""
        if self._config.is_member:
            self._step(StopRequested())  # it takes its time over it, and goes on flushing meanwhile
            return
        self._is_stopping = True
        if not self._is_flushing:
            self._step(StopRequested())

    def wake(self) -> None:
        """The clock has moved: do what has become due."""
        if self._timer is not None:
            self._timer.cancel()
        self._on_timer()

    def drop_connections(self) -> None:
        """Every client finds its connection reset."""
        for connection in list(self._connections.values()):
            connection.abort(reset=True)

    def kill(self) -> None:
        """As `kill -9`: not another step, no last flush, no clean mark."""
        self._is_broken = True
        self.drop_connections()
        if not self.stopped.done():
            self.stopped.set_result(None)

    def on_defect(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """*We are wrong*: what the node believes can't be trusted, so nothing more is done with it,
        and there will be no clean mark. The next start recovers from the disk."""
        log.critical("a defect: %s", context.get("message"), exc_info=context.get("exception"))
        self._is_broken = True
        if not self.stopped.done():
            self.stopped.set_exception(
                ServeError("stopped by a defect in Tidelog, told above; a restart recovers")
            )

    # --- events -------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        """Part of the turn that is on, or a turn of its own."""
        if self._is_broken:
            return
        now = self._turn_now
        if now is not None:
            self._perform(self._node.receive(now, event))
        else:
            self._begin_turn()
            self._step(event)
            self._end_turn()

    def _begin_turn(self) -> None:
        self._turn_now = self._clock()

    def _end_turn(self) -> None:
        now, self._turn_now = self._turn_now, None
        if now is None or self._is_broken:
            return
        effects = self._node.settle(now)
        if effects:
            self._perform(effects)
        deadline_ms = self._node.next_deadline()
        if deadline_ms != self._timer_ms:
            self._arm_timer(deadline_ms)

    def _on_frame(self, connection: ConnectionId, frame: memoryview) -> None:
        """HOT PATH: as `_step`, within a turn."""
        now = self._turn_now
        if now is None:
            self._step(FrameReceived(connection, frame))
        elif not self._is_broken:
            effects = self._node.receive(now, FrameReceived(connection, frame))
            if effects:
                self._perform(effects)

    def _on_connection(self, sock: socket.socket, peer: str) -> None:
        if len(self._connections) >= self._max_connections:
            log.warning("%s refused: %d connections are open", peer, len(self._connections))
            sock.close()
            return
        host = peer.rpartition(":")[0]
        if self._connections_from[host] >= self._settings.max_connections_per_ip:
            log.warning("%s refused: max.connections.per.ip are open from there", peer)
            sock.close()
            return
        connection_id = ConnectionId(self._next_connection)
        self._next_connection += 1
        connection = SocketConnection(
            self._turns,
            sock,
            connection_id,
            owner=host,
            max_frame_bytes=self._settings.socket_request_max_bytes,
            pool=self._receive_pool,
            on_frame=self._on_frame,
            on_lost=partial(self._on_lost, host),
            have_read=self._readers.read,
        )
        self._connections[connection_id] = connection
        self._connections_from[host] += 1
        self._step(ConnectionOpened(connection_id, peer))
        connection.start()

    def _on_lost(self, host: str, connection_id: ConnectionId, reason: str) -> None:
        if self._connections.pop(connection_id, None) is not None:
            self._connections_from[host] -= 1
            if not self._connections_from[host]:
                del self._connections_from[host]
            log.debug("connection %d: %s", connection_id, reason)
            self._step(ConnectionClosed(connection_id))

    def _look_after_connections(self) -> None:
        """Frames that do not arrive are given up, and buffers that are kept for nothing."""
        if self.stopped.done():
            return
        now_ms = self._clock().monotonic_ms
        timeout_ms = self._settings.socket_request_progress_timeout_ms
        for connection in list(self._connections.values()):
            connection.look_after(now_ms, timeout_ms=timeout_ms)
        self._loop.call_later(_LOOK_AFTER_S, self._look_after_connections)

    def _flush_done_in_thread(self, event: FlushDone) -> None:
        self._turns.tell(partial(self._on_flush_done, event))

    def _call_from_thread(self, function: Callable[[T], None], argument: T, /) -> None:
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:  # the loop has ended: nobody waits for what was read
            pass

    def _on_flush_done(self, event: FlushDone) -> None:
        self._is_flushing = False
        self._step(event)
        if self._is_stopping:
            self._step(StopRequested())

    def _arm_timer(self, deadline_ms: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms is not None:
            delay = max(0.0, (deadline_ms - self._clock().monotonic_ms) / 1000)
            self._timer = self._loop.call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_ms = None
        self._step(Tick())

    # --- effects ------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is SendResponse:
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    connection.send(effect.parts)
            else:
                self._carry_out[type(effect)](effect)

    def _close(self, effect: CloseConnection) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            log.info("connection %d closed: %s", effect.connection, effect.reason)
            self._loop.call_soon(connection.close_after_output)

    def _pause(self, effect: PauseReading) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.pause()

    def _resume(self, effect: ResumeReading) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.resume()

    def _flush(self, effect: StartFlush) -> None:
        if not self._is_stopping:  # the stop flushes everything itself
            self._is_flushing = True
            self._flusher.flush(effect)

    def _ask_zookeeper(self, effect: AskZooKeeper) -> None:
        assert self._zookeeper is not None, "a node asks only the ZooKeeper it was told of"
        self._zookeeper.ask(effect)

    def _announce(self, effect: Announce) -> None:
        """In the loop's next turn: at a start the listener does not listen yet."""
        if self.on_ready is not None:
            self._loop.call_soon(self.on_ready)

    def _report(self, effect: Report) -> None:
        log.log(_LEVELS[effect.level], "%s", effect.text)

    def _stop(self, effect: Stop) -> None:
        if self.stopped.done():
            return
        if effect.failure is None:
            self.stopped.set_result(None)
        else:
            self.stopped.set_exception(ServeError(effect.failure))

    def shut_down(self) -> None:
        """After the node has stopped: let go of sockets and the thread."""
        self.listener.close()
        self._peers.close()
        if self._zookeeper is not None:
            self._zookeeper.stop()
        for connection in list(self._connections.values()):
            connection.abort()
        self._flusher.stop()
        self._readers.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._turns.close()

    def _node_config(self) -> NodeConfig:
        options = self._options
        return NodeConfig(
            node_id=NodeId(options.node_id),
            host=options.advertised or options.host,
            port=self.listener.port,
            rack=self._settings.broker_rack or None,
            settings=self._settings,
            topic_defaults=options.settings,
            listen_host=options.host,
            data_dir=os.path.abspath(options.data_dir),
        )


async def run_service(service: Service, *, on_ready: Callable[[], None]) -> None:
    """From the start to the end of a service; `on_ready` is called once clients may connect."""
    asyncio.get_running_loop().set_exception_handler(service.on_defect)
    service.on_ready = on_ready
    try:
        service.start()
        await service.stopped
    finally:
        service.shut_down()


async def _serve(options: ServeOptions) -> None:
    loop = asyncio.get_running_loop()
    service = Service(loop, options)

    def announce() -> None:
        gc.freeze()
        sys.stdout.write(f"ready {options.host}:{service.listener.port}\n")
        sys.stdout.flush()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.request_stop)
    await run_service(service, on_ready=announce)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _zookeeper(
    loop: asyncio.AbstractEventLoop, settings: NodeSettings, on_event: Callable[[Event], None]
) -> ZooKeeperDoor | None:
    if settings.consensus != "zookeeper":
        return None
    try:
        return ZooKeeperDoor(
            loop,
            parse_ensemble(settings.zookeeper_connect),
            timeout_ms=settings.zookeeper_session_timeout_ms,
            on_event=on_event,
        )
    except InvalidSetting as error:
        raise ServeError(str(error)) from None
    except KazooMissing:
        raise ServeError(
            "consensus=zookeeper needs the package kazoo: pip install 'tidelog[zookeeper]'"
        ) from None


def _listen(
    loop: asyncio.AbstractEventLoop,
    options: ServeOptions,
    on_connection: Callable[[socket.socket, str], None],
) -> Listener:
    try:
        return Listener(
            loop,
            options.host,
            options.port,
            send_buffer_bytes=node_settings(options.settings).socket_send_buffer_bytes,
            on_connection=on_connection,
        )
    except OSError as error:
        raise _not_listening(options, error) from None


def _not_listening(options: ServeOptions, error: OSError) -> ServeError:
    return ServeError(
        f"can't listen on {options.host}:{options.port}: {error.strerror or error}; "
        "give another address with --listen HOST:PORT (port 0 chooses a free one)"
    )


def lock_data_directory(data_dir: Path) -> int:
    """One process per data directory. The lock ends with the process, however it ends."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data_dir / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ServeError(f"can't use the data directory {data_dir}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ServeError(
            f"another process uses {data_dir}: stop it, or give another --data-dir"
        ) from None
    return descriptor

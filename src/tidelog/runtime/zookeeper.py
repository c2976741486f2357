"""The way to a ZooKeeper ensemble: carries out what the node asks of it, with kazoo.

kazoo has threads of its own: one speaks with a server and keeps the session alive, others call us
back. Whatever comes is brought to the node's loop as an event, in the order in which it came. What
the node asked for in an earlier session is never sent in a later one.

kazoo does not say which timeout the server has granted, and everything rests on it: so the one
place where it learns of it is listened to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tidelog.broker.events import Event
from tidelog.model.cluster_settings import Ensemble
from tidelog.zookeeper.requests import (
    NO_SESSION,
    Answered,
    AskZooKeeper,
    Check,
    Children,
    Create,
    Delete,
    Get,
    Got,
    Listed,
    Missing,
    Put,
    Reason,
    Refused,
    Result,
    SessionExpired,
    SessionId,
    SessionResumed,
    SessionStarted,
    SessionSuspended,
    Unheard,
    WatchFired,
    Word,
    Write,
    Written,
    ZooKeeperSpoke,
)

log = logging.getLogger("tidelog.zookeeper")

_RECONNECT_MOST_S = 1.0
"""Between two attempts to find a server that answers."""


class KazooMissing(Exception):
    """The client library is not installed."""


class ZooKeeperDoor:
    """One node's client. `on_event` is called in the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ensemble: Ensemble,
        *,
        timeout_ms: int,
        on_event: Callable[[Event], None],
    ) -> None:
        try:
            from kazoo.client import KazooClient
            from kazoo.retry import KazooRetry
        except ImportError:
            raise KazooMissing from None
        self._loop = loop
        self._on_event = on_event
        self._session = NO_SESSION
        self._is_stopped = False
        self._watchers: dict[str, Callable[[Any], None]] = {}
        logging.getLogger("kazoo").setLevel(logging.ERROR)  # the node says itself what matters
        self._client = KazooClient(
            hosts=",".join(map(str, ensemble.servers)),
            timeout=timeout_ms / 1000,
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.05, backoff=2, max_delay=_RECONNECT_MOST_S
            ),
        )
        self._chroot = ensemble.chroot
        self._client.add_listener(self._on_state)
        connection = self._client._connection
        self._connect = connection._connect
        connection._connect = self._noted_connect

    def start(self) -> None:
        self._client.start_async()

    def stop(self) -> None:
        """The session ends with it, so that nobody has to wait for it to run out."""
        from kazoo.exceptions import KazooException

        self._is_stopped = True
        try:
            self._client.stop()
            self._client.close()
        except KazooException as error:  # nobody is there to be told
            log.debug("ZooKeeper was not told of the end: %s", error or type(error).__name__)

    def ask(self, effect: AskZooKeeper) -> None:
        if effect.session != self._session or self._is_stopped:
            self._loop.call_soon(self._hear, Answered(effect.number, Unheard()))
            return
        number, request = effect.number, effect.request
        if isinstance(request, Get):
            self._get(number, request)
        elif isinstance(request, Children):
            watch = self._watcher(request.path) if request.watches else None
            answer = self._client.get_children_async(self._at(request.path), watch=watch)
            answer.rawlink(lambda result: self._answer(number, _listed(result)))
        else:
            answer = self._transaction(request).commit_async()
            answer.rawlink(lambda result: self._answer(number, _written(result)))

    # --- requests -------------------------------------------------------------------------------

    def _at(self, path: str) -> str:
        return self._chroot + path

    def _get(self, number: int, request: Get) -> None:
        """A watch is left where a znode is, and where there is none yet, too."""
        path = self._at(request.path)

        def look(_: object = None) -> None:
            answer = self._client.get_async(path)
            answer.rawlink(lambda result: self._answer(number, _got(result)))

        def seen(result: Any) -> None:
            found = _existing(result)
            if found is None:
                look()
            else:
                self._answer(number, found)

        if request.watches:
            answer = self._client.exists_async(path, watch=self._watcher(request.path))
            answer.rawlink(seen)
        else:
            look()

    def _transaction(self, request: Write) -> Any:
        transaction = self._client.transaction()
        for change in request.changes:
            path = self._at(change.path)
            if isinstance(change, Create):
                transaction.create(path, change.data, ephemeral=change.is_ephemeral)
            elif isinstance(change, Put):
                transaction.set_data(path, change.data, version=change.version)
            elif isinstance(change, Delete):
                transaction.delete(path, version=change.version)
            else:
                assert isinstance(change, Check)
                transaction.check(path, version=change.version)
        return transaction

    def _watcher(self, path: str) -> Callable[[Any], None]:
        """One for each path, so that asking twice is told once."""
        return self._watchers.setdefault(path, self._make_watcher(path))

    def _make_watcher(self, path: str) -> Callable[[Any], None]:
        def fired(event: Any) -> None:
            if event.type != "NONE":  # the connection's own news comes by another way
                self._tell(WatchFired(path))

        return fired

    # --- in kazoo's threads ---------------------------------------------------------------------

    def _noted_connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        """kazoo's own, which gives two thirds of the session's timeout first."""
        timeouts: tuple[float, float] = self._connect(host, hostip, port)
        session = SessionId(self._client.client_id[0])
        if session == self._session:
            self._tell(SessionResumed())
        else:
            if self._chroot:
                self._client.ensure_path_async(self._chroot)
            self._session = session
            self._tell(SessionStarted(session, timeouts[0] * 1.5))
        return timeouts

    def _on_state(self, state: str) -> None:
        if state == "SUSPENDED":
            self._tell(SessionSuspended())
        elif state == "LOST":
            self._session = NO_SESSION
            self._tell(SessionExpired())

    def _answer(self, number: int, result: Result) -> None:
        self._tell(Answered(number, result))

    def _tell(self, word: Word) -> None:
        if self._is_stopped:
            return
        try:
            self._loop.call_soon_threadsafe(self._hear, word)
        except RuntimeError:  # the loop has ended: nobody waits for it
            pass

    def _hear(self, word: Word) -> None:
        if not self._is_stopped:
            self._on_event(ZooKeeperSpoke(word))


def _existing(result: Any) -> Result | None:
    """None if there is something to be read."""
    if result.exception is not None:
        return _failure(result.exception)
    return Missing() if result.value is None else None


def _got(result: Any) -> Result:
    if result.exception is not None:
        return _failure(result.exception)
    data, stat = result.value
    return Got(data, stat.version, SessionId(stat.ephemeralOwner))


def _listed(result: Any) -> Result:
    if result.exception is not None:
        return _failure(result.exception)
    return Listed(tuple(sorted(result.value)))


def _written(result: Any) -> Result:
    """Of a multi-operation each part has a result of its own; the one that is to blame has the
    only error that is not about the others."""
    from kazoo.exceptions import RolledBackError, RuntimeInconsistency

    if result.exception is not None:
        return _failure(result.exception)
    for index, one in enumerate(result.value):
        is_error = isinstance(one, Exception)
        if is_error and not isinstance(one, RolledBackError | RuntimeInconsistency):
            return Refused(index, _reason(one))
    return Written()


def _failure(error: BaseException) -> Result:
    from kazoo.exceptions import NoNodeError

    if isinstance(error, NoNodeError):
        return Missing()
    log.debug("ZooKeeper: %s", error or type(error).__name__)
    return Unheard()


def _reason(error: BaseException) -> Reason:
    from kazoo import exceptions

    reasons: dict[type, Reason] = {
        exceptions.NodeExistsError: "exists",
        exceptions.NoNodeError: "missing",
        exceptions.BadVersionError: "version",
        exceptions.NotEmptyError: "not empty",
    }
    return reasons.get(type(error), "other")

"""Clients for the actors of one node, so that they work in a cluster: each request is carried to
whoever is in charge of it now, and the guess at who that is is forgotten when it was wrong.

One attempt per call, as ever: an actor hears of a node that is not in charge as of any refusal.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.sim.client import Answer, Client, Lost, Reply
from tidelog.sim.cluster import Cluster
from tidelog.sim.replicated.router import Router
from tidelog.sim.schedule import Promise, Script
from tidelog.sim.workload.world import TopicFacts
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest

_PATIENCE_MS = 1_200.0
"""Whatever an actor is ready to wait: a node that stands still is given up sooner."""

NO_LIFE = -1
"""Whose answer it is stays untold: numbers of lives mean nothing without the host."""

COORDINATOR_EXCUSES = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""What a node may say at any time about a group, because the coordinator moves."""

LEADER_EXCUSES = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""The same about a partition: leaders move, and disks fail one of the nodes."""


class RoutedClient(Client):
    """Where a request goes is looked up when it is sent."""

    def __init__(self, cluster: Cluster, name: str, random: Random) -> None:
        super().__init__(
            cluster.schedule,
            cluster.network,
            cluster.host,
            name=name,
            report=cluster.world.findings.append,
        )
        self._router = Router(cluster, name, random)

    def call(self, request: Any, version: int, *, timeout_ms: float) -> Promise[Reply]:
        answered: Promise[Reply] = Promise()
        patience_ms = min(timeout_ms, _PATIENCE_MS)
        self._schedule.start(self._carry(request, version, patience_ms, answered))
        return answered

    def hang_up(self) -> None:
        self._router.hang_up()

    def _carry(
        self, request: Any, version: int, timeout_ms: float, answered: Promise[Reply]
    ) -> Script[None]:
        node_id = yield from self._in_charge(request)
        if node_id is None:
            answered.keep(Lost("nobody is known to be in charge"))
            return
        self._prepare(request)
        reply = yield self._router.at(node_id).call(request, version, timeout_ms=timeout_ms)
        if isinstance(reply, Answer):
            if any(error is not ErrorCode.NONE for error in _errors_of(reply.body)):
                self._forget()
            reply = reply._replace(incarnation=NO_LIFE)
        else:
            self._forget()
        answered.keep(reply)

    def _in_charge(self, request: Any) -> Script[NodeId | None]:
        raise NotImplementedError

    def _prepare(self, request: Any) -> None:
        """What is known by the one who carries it is said in the request."""

    def _forget(self) -> None:
        raise NotImplementedError


class GroupClient(RoutedClient):
    """Talks to the coordinator of one group."""

    def __init__(self, cluster: Cluster, name: str, random: Random, group: str) -> None:
        super().__init__(cluster, name, random)
        self._group = group

    def _in_charge(self, request: Any) -> Script[NodeId | None]:
        if isinstance(request, FindCoordinatorRequest):
            return self._router.anybody()
        found: NodeId | None = yield from self._router.coordinator_of(self._group)
        return found

    def _forget(self) -> None:
        self._router.forget_coordinator(self._group)


class LeaderClient(RoutedClient):
    """Talks to the leader of the one partition of a topic."""

    def __init__(self, cluster: Cluster, name: str, random: Random, topic: TopicFacts) -> None:
        super().__init__(cluster, name, random)
        self._topic = topic

    def _in_charge(self, request: Any) -> Script[NodeId | None]:
        found: NodeId = yield from self._router.leader_of(self._topic, 0)
        return found

    def _prepare(self, request: Any) -> None:
        """A reader names the newest leader it has heard of: one of old may show what is gone."""
        if isinstance(request, FetchRequest):
            epoch = self._router.epoch_of((self._topic.label, 0))
            request.topics[0].partitions[0].current_leader_epoch = epoch

    def _forget(self) -> None:
        self._router.forget_leader((self._topic.label, 0))


def _errors_of(message: Any) -> Iterable[ErrorCode]:
    """Every error in an answer, wherever its version has put it."""
    for name in getattr(message, "__slots__", None) or vars(message):
        value = getattr(message, name)
        if isinstance(value, ErrorCode):
            yield value
        elif isinstance(value, list):
            for each in value:
                if not isinstance(each, int | str | bytes):
                    yield from _errors_of(each)

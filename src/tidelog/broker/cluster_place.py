"""A node's place in its cluster, as API handlers see it: who the controller is, how to ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tidelog.broker.peers import Conversation
from tidelog.controller.log_ends import LogEndsByPartition
from tidelog.metadata.image import PartitionState
from tidelog.model.clock import Now
from tidelog.model.ids import NodeId


class ClusterPlace(Protocol):
    """What handlers may want to know."""

    @property
    def told_controller_id(self) -> NodeId:
        """Whom clients are told to ask: the controller, or who will hand on what they ask."""
        ...

    @property
    def broker_epoch(self) -> int: ...

    def is_certain(self, now_ms: float) -> bool:
        """If this node is the controller: that no other can be."""
        ...

    def ask_controller(
        self, now: Now, request: Any, *, timeout_ms: float, conversation: Conversation
    ) -> bool:
        """Whether the question is on its way."""
        ...

    def ask_log_ends(
        self,
        now: Now,
        states: Iterable[PartitionState],
        told: Callable[[Now, LogEndsByPartition], None],
    ) -> None:
        """On the controller: ask the replicas of partitions without a leader what they have."""
        ...


class Alone:
    """The only node is its own controller, and has nobody to ask."""

    def __init__(self, node_id: NodeId) -> None:
        self._node_id = node_id

    @property
    def told_controller_id(self) -> NodeId:
        return self._node_id

    @property
    def broker_epoch(self) -> int:
        return -1

    def is_certain(self, now_ms: float) -> bool:
        return True

    def ask_controller(
        self, now: Now, request: Any, *, timeout_ms: float, conversation: Conversation
    ) -> bool:
        return False

    def ask_log_ends(
        self,
        now: Now,
        states: Iterable[PartitionState],
        told: Callable[[Now, LogEndsByPartition], None],
    ) -> None:
        told(now, {})

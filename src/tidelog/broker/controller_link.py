"""The way from a node to the active controller, wherever that is: also to itself.

Who the controller is may change between two questions. A question to a node that is not, or no
longer, the controller is answered NOT_CONTROLLER; whoever asked asks again, after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.broker.effects import Channel
from tidelog.broker.peers import Conversation, Peers
from tidelog.model.clock import Now
from tidelog.model.ids import Endpoint

RETRY_MS = 100.0
"""Before the controller is looked for again."""


class ControllerLink:
    """`find` gives the controller's address as far as this node knows it."""

    def __init__(self, peers: Peers, find: Callable[[], Endpoint | None]) -> None:
        self._peers = peers
        self._find = find

    @property
    def endpoint(self) -> Endpoint | None:
        return self._find()

    def ask(
        self,
        now: Now,
        request: Any,
        *,
        timeout_ms: float,
        conversation: Conversation,
        channel: Channel = "control",
        version: int | None = None,
    ) -> bool:
        """Whether the question is on its way: not while nobody is known to be the controller.

        Answers on a channel come in the order of the questions. A node's heartbeats go by
        "control", so what may take long needs another."""
        endpoint = self._find()
        if endpoint is None:
            return False
        self._peers.call(
            endpoint,
            channel,
            request,
            deadline_ms=now.monotonic_ms + timeout_ms,
            conversation=conversation,
            version=version,
        )
        return True

"""Tidelog: a persistent event log and message queue that speaks the Kafka wire protocol.

For programs: `tidelog.Producer`, `tidelog.Consumer`, `tidelog.Admin`, their asyncio forms in
`tidelog.aio`, and `tidelog.testing` for the real broker inside a test.

The rooms, from the ground up: `model` (ids, errors, settings), `wire` (Kafka's bytes), `log` (one
partition on disk), `metadata` and `controller` (what the cluster knows, who changes it),
`partition` (one replica), `groups` (consumer groups), `broker` (the whole node without I/O),
`runtime` (sockets, files, threads), `client`, `testing`, `cli`, `sim`. Start with
`ARCHITECTURE.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog import aio, testing
    from tidelog.client.admin import Admin
    from tidelog.client.connection import Connection
    from tidelog.client.consumer import Consumer
    from tidelog.client.errors import (
        ClientError,
        DamagedBatch,
        GroupError,
        MessageTooLarge,
        NoBroker,
        NotAcknowledged,
        TopicExists,
        UnknownGroup,
        UnknownTopic,
    )
    from tidelog.client.message import Message, Receipt
    from tidelog.client.producer import Delivery, Producer

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "ClientError",
    "Connection",
    "Consumer",
    "DamagedBatch",
    "Delivery",
    "GroupError",
    "Message",
    "MessageTooLarge",
    "NoBroker",
    "NotAcknowledged",
    "Producer",
    "Receipt",
    "TopicExists",
    "UnknownGroup",
    "UnknownTopic",
    "aio",
    "testing",
]

_HOMES = {
    "admin": ("Admin",),
    "connection": ("Connection",),
    "consumer": ("Consumer",),
    "errors": (
        "ClientError",
        "DamagedBatch",
        "GroupError",
        "MessageTooLarge",
        "NoBroker",
        "NotAcknowledged",
        "TopicExists",
        "UnknownGroup",
        "UnknownTopic",
    ),
    "message": ("Message", "Receipt"),
    "producer": ("Delivery", "Producer"),
}


def __getattr__(name: str) -> Any:
    """librdkafka is loaded when a name that needs it is first used: a broker never does."""
    from importlib import import_module

    if name in ("aio", "testing"):
        return import_module(f"tidelog.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"tidelog.client.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

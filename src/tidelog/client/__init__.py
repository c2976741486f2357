"""People's client: `Producer`, `Consumer` and `Admin`, thin and typed, over librdkafka.

The protocol work is librdkafka's, the most trusted client there is; this room adds what people
miss in it: safe defaults (idempotence, acks=all, cooperative groups), plain values, iteration,
at-least-once or at-most-once by one word, and errors that say what to do. Everything that goes
wrong is a `ClientError` with one sentence; librdkafka's own log lines never reach the terminal.

Start with `connection.py`, which all share. `reader.py` reads given partitions without a group;
`aio/` has the asyncio forms. `direct.py` is the one exception to librdkafka.
Knows `model` and `wire` and nothing else of ours. Importing the package loads
no librdkafka: that waits for the first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.connection import Connection
    from tidelog.client.consumer import Consumer
    from tidelog.client.errors import ClientError, DamagedBatch
    from tidelog.client.message import Message, Receipt
    from tidelog.client.producer import Delivery, Producer
    from tidelog.client.reader import Reader

__all__ = [
    "Admin",
    "ClientError",
    "Connection",
    "Consumer",
    "DamagedBatch",
    "Delivery",
    "Message",
    "Producer",
    "Reader",
    "Receipt",
]

_HOMES = {
    "Admin": "admin",
    "ClientError": "errors",
    "Connection": "connection",
    "Consumer": "consumer",
    "DamagedBatch": "errors",
    "Delivery": "producer",
    "Message": "message",
    "Producer": "producer",
    "Reader": "reader",
    "Receipt": "message",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

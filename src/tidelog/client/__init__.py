"""People's client: `Admin`, `Producer` and `Consumer`, thin and typed, over librdkafka.

The protocol work is librdkafka's, the most trusted client there is; this room adds what people
miss in it: safe defaults (idempotence, acks=all), plain values, and errors that say what to do.
Everything that goes wrong is a `ClientError` with one sentence; librdkafka's own log lines never
reach the terminal.

Start with `connection.py`, which the other three share. Knows `model` and nothing else of ours.
"""

from __future__ import annotations

from tidelog.client.admin import Admin
from tidelog.client.connection import Connection
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer

__all__ = ["Admin", "ClientError", "Connection", "Consumer", "Producer"]

"""librdkafka's messages as ours."""

from __future__ import annotations

from operator import methodcaller

import confluent_kafka

from tidelog.client.message import Message, as_bytes

_headers_of = methodcaller("headers")
"""Where a header's name is not UTF-8, confluent-kafka sets an exception and returns a list that
must not be touched. A call of the method from Python code may not notice, and crash; this one
raises a `SystemError`."""


def message_of(received: confluent_kafka.Message) -> Message:
    """librdkafka's message as ours."""
    headers = _headers_of(received) or []
    return Message(
        received.topic() or "",
        received.partition() or 0,
        received.offset() or 0,
        as_bytes(received.key()),
        as_bytes(received.value()),
        [(name, as_bytes(value)) for name, value in _pairs(headers)],
        received.timestamp()[1],
    )


def _pairs(headers: object) -> list[tuple[str, str | bytes | None]]:
    return list(headers.items()) if isinstance(headers, dict) else headers  # type: ignore[return-value]

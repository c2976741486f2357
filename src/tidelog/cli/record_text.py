"""A record as text: by a template, or as a line of JSON."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

from tidelog.cli.output import time_text
from tidelog.client.message import Message

_FIELD = re.compile(r"\{(\w+)\}")
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\\": "\\", r"\0": "\0"}
_ESCAPE = re.compile(r"\\[nt\\0]")

_FIELDS: dict[str, Callable[[Message], bytes]] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": lambda record: b"%d" % record.timestamp_ms,
    "time": lambda record: time_text(record.timestamp_ms).encode(),
    "key": lambda record: record.key or b"",
    "value": lambda record: record.value or b"",
    "headers": lambda record: b",".join(
        name.encode() + b"=" + (value or b"") for name, value in record.headers
    ),
}

FIELD_NAMES = ", ".join(_FIELDS)


def template(text: str) -> Callable[[Message], bytes]:
    """The writer of one record; keys and values go through as the bytes they are.

    An unknown field is a `ValueError` with a sentence.
    """
    parts: list[bytes | Callable[[Message], bytes]] = []
    for position, part in enumerate(_FIELD.split(_unescaped(text))):
        if position % 2 == 0:
            parts.append(part.encode())
        elif part in _FIELDS:
            parts.append(_FIELDS[part])
        else:
            raise ValueError(f"unknown field {{{part}}}: known are {FIELD_NAMES}")

    def write(record: Message) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return write


def json_line(record: Message) -> bytes:
    """One line. A key or value that is not UTF-8 stands as `key_base64`, `value_base64`."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": [
            {"name": name, **text_or_base64("value", value)} for name, value in record.headers
        ],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    """`data` under `name` if it is text, else under `name_base64`: JSON knows no bytes."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES[match[0]], text)

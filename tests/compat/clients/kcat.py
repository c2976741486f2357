"""kcat: librdkafka 2.0 at the command line, from Debian.

What it sends comes from standard input with delimiters between messages and before values; headers
and nullness are options of a whole run, so that unlike messages take a run each. It sets no
timestamps. What it reads is printed in a format of our own, lengths before bytes.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.compat.clients.message import PATIENCE_S, Message

_KEY_END = b"\x1f"
_MESSAGE_END = b"\x1e"
_SHORT_WAIT_MS = 20
"""It knows that it has read everything when a fetch comes back empty."""

_FIELDS = "%p %o %T %K %S %h\\x1f%k%s\\x1e"


class Kcat:
    name = "kcat"
    codecs: Sequence[str] = ("none", "gzip", "snappy", "lz4", "zstd")
    sets_timestamps = False

    def write(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        for kind, alike in itertools.groupby(messages, _kind):
            partition, headers, is_null = kind
            arguments = ["-P", "-t", topic, "-p", str(partition), "-K", "\\x1f", "-D", "\\x1e"]
            arguments += ["-z", codec] if codec != "none" else []
            arguments += ["-Z"] if is_null else []
            for name, value in headers:
                arguments += ["-H", name if value is None else f"{name}={value.decode()}"]
            kcat(bootstrap, *arguments, *_settings(options), given=_lines(alike))

    def read(
        self,
        bootstrap: str,
        topic: str,
        count: int,
        *,
        partitions: Sequence[int] = (0,),
        options: Mapping[str, Any] | None = None,
    ) -> list[Message]:
        messages: list[Message] = []
        options = {"fetch.wait.max.ms": _SHORT_WAIT_MS, **(options or {})}
        for partition in partitions:
            arguments = ["-C", "-t", topic, "-p", str(partition), "-o", "beginning", "-e"]
            output = kcat(bootstrap, *arguments, "-f", _FIELDS, *_settings(options))
            messages += parse(output)
        assert len(messages) >= count, f"{len(messages)} of {count} messages"
        return messages[:count]


def kcat(bootstrap: str, *arguments: str, given: bytes = b"") -> bytes:
    """Its standard output; its complaints are raised."""
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments],
        input=given,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    if done.returncode:
        raise RuntimeError(f"kcat ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def parse(output: bytes) -> list[Message]:
    """The messages in what was printed as `_FIELDS`."""
    messages: list[Message] = []
    while output:
        head, _, rest = output.partition(_KEY_END)
        numbers, headers = head.split(b" ", 5)[:5], head.split(b" ", 5)[5]
        partition, offset, timestamp, key_size, size = map(int, numbers)
        key, rest = _field(rest, key_size)
        value, rest = _field(rest, size)
        assert rest.startswith(_MESSAGE_END)
        output = rest[1:]
        messages.append(Message(value, key, _headers(headers), timestamp, partition, offset))
    return messages


def _field(data: bytes, size: int) -> tuple[bytes | None, bytes]:
    return (None, data) if size < 0 else (data[:size], data[size:])


def _headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    pairs = [pair.partition(b"=") for pair in text.split(b",") if pair]
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)


def _kind(message: Message) -> tuple[int, tuple[Any, ...], bool]:
    return message.partition, message.headers, message.value is None


def _lines(messages: Iterable[Message]) -> bytes:
    return _MESSAGE_END.join(
        (b"" if each.key is None else each.key + _KEY_END) + (each.value or b"")
        for each in messages
    )


def _settings(options: Mapping[str, Any] | None) -> list[str]:
    pairs = [("-X", f"{name}={value}") for name, value in (options or {}).items()]
    return list(itertools.chain.from_iterable(pairs))

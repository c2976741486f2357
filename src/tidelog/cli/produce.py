"""`tidelog produce`: records from lines, a file or a generator."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import AsJson, Bootstrap, TopicName, pairs
from tidelog.cli.output import (
    add_rows,
    aside,
    emit_json,
    people,
    plural,
    progress,
    size_text,
    table,
)
from tidelog.client import Connection, Producer
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.client.producer import ANY_PARTITION, Deliveries, Headers

app = typer.Typer(rich_markup_mode="markdown")

PROGRESS_STRIDE = 1000
"""Records between two updates of the progress bar: it must not cost more than the sending."""


class Compression(StrEnum):
    """The codecs of the protocol."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Who must have a record before it counts as sent."""

    ALL = "all"
    LEADER = "1"
    NOBODY = "0"


@dataclass(frozen=True, slots=True)
class Draft:
    """A record to be sent."""

    key: bytes | None
    value: bytes


@app.command(
    epilog="Example: `echo 'k1:hello' | tidelog produce greetings --key-separator :`\n\n"
    "Test data: `tidelog produce load --count 100000 --size 1000`"
)
def produce(
    topic: TopicName,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read lines from here."),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="A line is KEY, this, VALUE."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="On each record; repeatable."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, metavar="N", help="Send all to this one."),
    ] = None,
    compression: Annotated[
        Compression, typer.Option(metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = Compression.NONE,
    acks: Annotated[
        Acks, typer.Option(metavar="WHO", help="Who must have it: all, 1 (the leader), 0.")
    ] = Acks.ALL,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, metavar="N", help="Send that much test data instead."),
    ] = None,
    size: Annotated[
        int, typer.Option("--size", min=1, metavar="N", help="Bytes of a test record's value.")
    ] = 100,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Send records: one for each line of standard input, of a file, or test data.

    Each record is acknowledged by all replicas, and none is written twice, unless --acks says
    otherwise.
    """
    if count is not None and file is not None:
        raise typer.BadParameter("give --file or --count, not both")
    if key_separator == "":
        raise typer.BadParameter("must not be empty", param_hint="--key-separator")
    headers = [(name, value.encode()) for name, value in _headers(header).items()]
    producer = Producer(Connection(bootstrap), acks=acks.value, compression=compression.value)
    with ExitStack() as stack:
        if count is not None:
            drafts = generated(count, size)
        else:
            drafts = from_lines(stack.enter_context(_lines(file)), key_separator)
        started = time.monotonic()
        sent_bytes = _send_all(
            producer, topic, drafts, headers=headers, partition=partition, expected=count
        )
        seconds = time.monotonic() - started
    _report(topic, producer.deliveries, sent_bytes=sent_bytes, seconds=seconds, as_json=as_json)


def from_lines(lines: BinaryIO, key_separator: str | None) -> Iterator[Draft]:
    """A record for each line; with a separator, what stands before its first occurrence is key."""
    separator = key_separator.encode() if key_separator else None
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix(b"\n")
        if separator is None:
            yield Draft(None, text)
            continue
        key, found, value = text.partition(separator)
        if not found:
            raise CommandFailed(
                f"line {number} has no {key_separator!r}: what stood before it has been sent"
            )
        yield Draft(key, value)


def generated(count: int, size: int) -> Iterator[Draft]:
    """Test data: numbered keys, and values that compress about as well as text does."""
    luck = random.Random(1)
    filler = bytes(luck.choices(b"abcdefghijklmnopqrstuvwxyz     ", k=size + 4096))
    for number in range(count):
        start = number * 37 % 4096
        yield Draft(b"%d" % number, filler[start : start + size])


def _headers(texts: list[str] | None) -> dict[str, str]:
    return pairs(texts or [], option="--header")


def _lines(file: Path | None) -> BinaryIO:
    if file is not None:
        return file.open("rb")
    if sys.stdin.isatty():
        aside().print("one record a line; Ctrl-D ends", style="dim")
    return sys.stdin.buffer


def _send_all(
    producer: Producer,
    topic: str,
    drafts: Iterator[Draft],
    *,
    headers: Headers,
    partition: int | None,
    expected: int | None,
) -> int:
    """Send and wait; the bytes of keys and values. Whatever stops the reading, what was read is
    delivered first."""
    sent_bytes = 0
    chosen = ANY_PARTITION if partition is None else partition
    with progress(is_counted=expected is not None) as bar:
        task = bar.add_task(f"sending to {topic}", total=expected)

        def show() -> None:
            bar.update(task, completed=producer.deliveries.acknowledged)

        try:
            for number, draft in enumerate(drafts):
                producer.send(topic, draft.value, key=draft.key, headers=headers, partition=chosen)
                sent_bytes += len(draft.value) + len(draft.key or b"")
                if number % PROGRESS_STRIDE == 0:
                    show()
        finally:
            producer.flush(on_wait=show)
    return sent_bytes


def _report(
    topic: str, deliveries: Deliveries, *, sent_bytes: int, seconds: float, as_json: bool
) -> None:
    offsets = sorted(deliveries.offsets.items())
    if as_json:
        emit_json(
            {
                "topic": topic,
                "records": deliveries.acknowledged,
                "failed": deliveries.failed,
                "bytes": sent_bytes,
                "seconds": round(seconds, 3),
                "partitions": [
                    {"partition": number, "first_offset": first, "last_offset": last}
                    for number, (first, last) in offsets
                ],
            }
        )
    elif deliveries.acknowledged:
        rate = deliveries.acknowledged / seconds
        people().print(
            f"sent {plural(deliveries.acknowledged, 'record')} to {topic} in {seconds:.2f} s: "
            f"{rate:,.0f} records/s, {size_text(sent_bytes / seconds)}/s",
            soft_wrap=True,
        )
        rows = [(number, first, last) for number, (first, last) in offsets]
        if offsets:
            people().print(add_rows(table("#Partition", "#First offset", "#Last offset"), rows))
    if deliveries.first_error is not None:
        raise CommandFailed(
            f"{plural(deliveries.failed, 'record')} not sent: {deliveries.first_error}"
        )

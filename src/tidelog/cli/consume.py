"""`tidelog consume`: records from anywhere in a topic, without a group."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import Bootstrap, TopicName
from tidelog.cli.output import aside
from tidelog.cli.record_text import FIELD_NAMES, json_line, template
from tidelog.cli.start_point import StartPoint, parse_start
from tidelog.client import Admin, Connection, Message, Reader
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.model.ids import TopicPartition

app = typer.Typer(rich_markup_mode="markdown")

READ_AT_ONCE = 1000
"""Records asked of librdkafka in one call; each call crosses into C once."""


@app.command(
    epilog="Example: `tidelog consume orders --from beginning --exit-at-end`\n\n"
    "Follow, with keys: `tidelog consume orders --from end --format '{key}: {value}\\n'`"
)
def consume(
    topic: TopicName,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="beginning, end, an offset, a time (2030-01-31T12:00), or so long ago (10m, 2h).",
        ),
    ] = "beginning",
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only this one.")
    ] = None,
    max_records: Annotated[
        int | None,
        typer.Option("--max", "-n", min=1, metavar="N", help="Stop after so many records."),
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop when nothing is left to read.")
    ] = False,
    layout: Annotated[
        str | None,
        typer.Option("--format", metavar="TEXT", help=f"With {{field}}s: {FIELD_NAMES}."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print records: each value on a line of its own, unless --format or --json says otherwise.

    Joins no group and commits nothing. Without --exit-at-end or --max it waits for more until
    Ctrl-C.
    """
    writer = _writer(layout, as_json=as_json)
    point = _start_point(start)
    connection = Connection(bootstrap)
    starts = start_offsets(Admin(connection), topic, partition=partition, point=point)
    reader = Reader(connection, starts=starts, on_broker_lost=lambda: _mention_loss(bootstrap))
    try:
        _print_records(reader, writer, max_records=max_records, exit_at_end=exit_at_end)
    finally:
        reader.close()


def start_offsets(
    admin: Admin, topic: str, *, partition: int | None, point: StartPoint
) -> dict[TopicPartition, int]:
    """The offset at which to begin in each partition, or `CommandFailed` if there is none."""
    chosen = admin.topic(topic).chosen(partition)
    if point.kind == "time":
        return admin.offsets_at(chosen, point.number)
    spans = admin.offsets(chosen)
    if point.kind == "offset":
        return {each: _within(each, point.number, spans[each]) for each in _single(chosen)}
    return {
        each: span.start if point.kind == "beginning" else span.end for each, span in spans.items()
    }


def _single(chosen: list[TopicPartition]) -> list[TopicPartition]:
    if len(chosen) > 1:
        raise CommandFailed(
            f"topic {chosen[0].topic!r} has {len(chosen)} partitions, each with offsets of its "
            "own: say which with --partition N"
        )
    return chosen


def _within(partition: TopicPartition, offset: int, span: tuple[int, int]) -> int:
    start, end = span
    if not start <= offset <= end:
        raise CommandFailed(
            f"offset {offset} is not in partition {partition.partition} of {partition.topic!r}: "
            f"it begins at {start}, and its next record gets {end}"
        )
    return offset


def _writer(layout: str | None, *, as_json: bool) -> Callable[[Message], bytes]:
    if as_json and layout is not None:
        raise typer.BadParameter("give --format or --json, not both")
    if as_json:
        return json_line
    try:
        return template(layout if layout is not None else "{value}\n")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--format") from None


def _start_point(text: str) -> StartPoint:
    try:
        return parse_start(text, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None


def _mention_loss(bootstrap: str) -> None:
    aside().print(f"{bootstrap} does not answer; waiting for it (Ctrl-C ends)", style="yellow")


def _print_records(
    reader: Reader,
    writer: Callable[[Message], bytes],
    *,
    max_records: int | None,
    exit_at_end: bool,
) -> None:
    output = sys.stdout.buffer
    left = max_records
    while left is None or left > 0:
        records = reader.poll(
            max_records=READ_AT_ONCE if left is None else min(left, READ_AT_ONCE)
        )
        output.writelines(map(writer, records))
        output.flush()
        if left is not None:
            left -= len(records)
        if exit_at_end and reader.is_at_end:
            return

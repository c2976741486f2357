"""`tidelog consume`: records from anywhere in a topic without a group, or as a member of one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.consume_group import GroupReading, print_as_member
from tidelog.cli.names import group_names, topic_names
from tidelog.cli.options import Bootstrap, named
from tidelog.cli.output import aside
from tidelog.cli.record_text import FIELD_NAMES, json_line, template
from tidelog.cli.start_offsets import start_offsets, start_point
from tidelog.cli.start_point import StartPoint
from tidelog.client import Admin, Connection, Message, Reader
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.client.errors import DamagedBatch
from tidelog.model.ids import TopicPartition

app = typer.Typer(rich_markup_mode="markdown")

READ_AT_ONCE = 1000
"""Records asked of librdkafka in one call; each call crosses into C once."""


class Protocol(StrEnum):
    """Who assigns partitions: a member (classic) or the broker (consumer, KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


Topics = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC",
        help="One or more; with --group also a pattern, as '^orders.*'.",
        autocompletion=topic_names,
        callback=named,
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="WHERE",
        show_default="beginning",
        help="beginning, end, an offset, a time (2030-01-31T12:00), or so long ago (10m, 2h).",
    ),
]
OnePartition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only this one.")
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        metavar="NAME",
        help="Join this group, and commit what is printed.",
        autocompletion=group_names,
        callback=named,
    ),
]
GroupProtocol = Annotated[
    Protocol | None,
    typer.Option(
        "--protocol",
        metavar="NAME",
        show_default="classic",
        help="Of the group: classic, or consumer (KIP-848).",
    ),
]
MaxRecords = Annotated[
    int | None,
    typer.Option("--max", "-n", min=1, metavar="N", help="Stop after so many records."),
]
ExitAtEnd = Annotated[
    bool, typer.Option("--exit-at-end", "-e", help="Stop when nothing is left to read.")
]
Layout = Annotated[
    str | None, typer.Option("--format", metavar="TEXT", help=f"With {{field}}s: {FIELD_NAMES}.")
]
SkipDamaged = Annotated[
    bool,
    typer.Option(
        "--skip-damaged", help="Pass over batches that can't be read, and say which they were."
    ),
]
AsJsonLines = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@app.command(
    epilog="Example: `tidelog consume orders --from beginning --exit-at-end`\n\n"
    "Follow, with keys: `tidelog consume orders --from end --format '{key}: {value}\\n'`\n\n"
    "Share the work: `tidelog consume '^orders.*' --group billing`, several times"
)
def consume(
    topics: Topics,
    start: Start = None,
    partition: OnePartition = None,
    group: Group = None,
    protocol: GroupProtocol = None,
    max_records: MaxRecords = None,
    exit_at_end: ExitAtEnd = False,
    layout: Layout = None,
    as_json: AsJsonLines = False,
    skip_damaged: SkipDamaged = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print records: each value on a line of its own, unless --format or --json says otherwise.

    Without --exit-at-end or --max it waits for more until Ctrl-C. Without --group it joins no
    group and commits nothing. With one it goes on where the group is, --from says only where a new
    group begins, and each record is committed once it is printed: after a crash, some may come
    again. A batch that lies in the log and can't be read ends it, with its offset and the reason.
    """
    writer = _writer(layout, as_json=as_json)
    connection = Connection(bootstrap)
    if group is not None:
        reading = GroupReading(
            group,
            topics,
            start=_group_start(start, partition),
            protocol=(protocol or Protocol.CLASSIC).value,
            max_records=max_records,
            exit_at_end=exit_at_end,
            skip_damaged=skip_damaged,
        )
        print_as_member(
            connection,
            reading,
            writer,
            on_broker_lost=lambda: _mention_loss(bootstrap),
            on_damage=_mention_damage,
        )
        return
    if protocol is not None:
        raise typer.BadParameter("only a group has one: give --group", param_hint="--protocol")
    starts = _starts(connection, topics, partition=partition, start=start or "beginning")
    reader = Reader(
        connection,
        starts=starts,
        on_broker_lost=lambda: _mention_loss(bootstrap),
        on_damage=_mention_damage if skip_damaged else None,
    )
    try:
        _print_records(reader, writer, max_records=max_records, exit_at_end=exit_at_end)
    finally:
        reader.close()


def _starts(
    connection: Connection, topics: list[str], *, partition: int | None, start: str
) -> dict[TopicPartition, int]:
    """The offset at which to begin in each partition of each topic."""
    point = start_point(start, option="--from")
    if any(topic.startswith("^") for topic in topics):
        raise typer.BadParameter("a pattern can only be read as a group: give --group")
    if len(topics) > 1 and (partition is not None or point.kind == "offset"):
        raise typer.BadParameter("a partition or an offset is one topic's: name a single topic")
    admin = Admin(connection)
    starts: dict[TopicPartition, int] = {}
    for topic in topics:
        starts |= start_offsets(admin, topic, partition=partition, point=point)
    return starts


def _group_start(text: str | None, partition: int | None) -> StartPoint:
    """Where a group begins that has committed nothing; it can't be told more."""
    if partition is not None:
        raise typer.BadParameter(
            "the group assigns partitions: leave it out", param_hint="--partition"
        )
    point = start_point(text or "beginning", option="--from")
    if point.kind not in ("beginning", "end"):
        raise typer.BadParameter(
            "a new group begins at the beginning or the end; move one with "
            "`tidelog group reset-offsets`",
            param_hint="--from",
        )
    return point


def _writer(layout: str | None, *, as_json: bool) -> Callable[[Message], bytes]:
    if as_json and layout is not None:
        raise typer.BadParameter("give --format or --json, not both")
    if as_json:
        return json_line
    try:
        return template(layout if layout is not None else "{value}\n")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--format") from None


def _mention_loss(bootstrap: str) -> None:
    aside().print(f"{bootstrap} does not answer; waiting for it (Ctrl-C ends)", style="yellow")


def _mention_damage(damage: DamagedBatch) -> None:
    aside().print(f"{damage.what}; passed over", style="yellow", soft_wrap=True)


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
        records = reader.poll(max_records=READ_AT_ONCE if left is None else min(left, READ_AT_ONCE))
        output.writelines(map(writer, records))
        output.flush()
        if left is not None:
            left -= len(records)
        if exit_at_end and reader.is_at_end:
            return

"""`tidelog topic delete-records`: shown first, done with --yes."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.options import AsJson, Bootstrap, Carry, TopicName
from tidelog.cli.output import add_rows, emit_json, people, plural, table
from tidelog.cli.start_offsets import start_offsets, start_point
from tidelog.client import Admin, Connection
from tidelog.client.connection import DEFAULT_BOOTSTRAP


def delete_records(
    topic: TopicName,
    before: Annotated[
        str,
        typer.Option(
            "--before",
            metavar="WHERE",
            help="An offset, end (all of them), a time (2030-01-31T12:00), or so long ago (30d).",
        ),
    ],
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only this one.")
    ] = None,
    yes: Carry = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest records of a topic. Shows what would go; --yes does it.

    The topic, its settings and its offsets stay: the next record gets the next offset.
    """
    point = start_point(before, option="--before")
    admin = Admin(Connection(bootstrap))
    cuts = start_offsets(admin, topic, partition=partition, point=point)
    spans = admin.offsets(cuts)
    if yes:
        starts = admin.delete_records(cuts)
    else:
        starts = {place: max(cut, spans[place].start) for place, cut in cuts.items()}
    rows = [
        {
            "partition": place.partition,
            "old_start_offset": spans[place].start,
            "new_start_offset": start,
            "end_offset": spans[place].end,
            "records": start - spans[place].start,
        }
        for place, start in sorted(starts.items())
    ]
    if as_json:
        emit_json({"topic": topic, "dry_run": not yes, "partitions": rows})
        return
    cells = (
        (row["partition"], row["old_start_offset"], "→", *list(row.values())[2:]) for row in rows
    )
    made = table("#Partition", "#Start", "", "#New start", "#End", "#Deleted")
    people().print(add_rows(made, cells))
    people().print()
    count = plural(sum(row["records"] for row in rows), "record")
    people().print(f"{count} {'deleted' if yes else 'would be deleted'}.")
    if not yes:
        people().print("Nothing has changed: this is what --yes would do.")

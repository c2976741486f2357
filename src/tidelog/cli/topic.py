"""`tidelog topic create|list|describe|delete`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tidelog.cli.options import AsJson, Bootstrap, TopicName, pairs
from tidelog.cli.output import add_rows, emit_json, people, plural, table
from tidelog.client import Admin, Connection
from tidelog.client.admin import BROKER_DEFAULT, Offsets, Topic
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.model.ids import TopicPartition

app = typer.Typer(
    help="Create, list, describe and delete topics.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    epilog="Example: `tidelog topic create orders --partitions 3`",
)


@app.command(epilog="Example: `tidelog topic create orders --partitions 3 --set flush.policy=os`")
def create(
    topic: TopicName,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            metavar="N",
            help="How many; the node's default if left out.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            min=1,
            metavar="N",
            help="Copies; the node's default if left out.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A topic setting; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Create a topic."""
    topic_settings = pairs(settings or [], option="--set")
    admin = Admin(Connection(bootstrap))
    admin.create_topic(
        topic,
        partitions=partitions or BROKER_DEFAULT,
        replication_factor=replication_factor or BROKER_DEFAULT,
        settings=topic_settings,
    )
    count = len(admin.topic(topic).partitions)
    if as_json:
        emit_json({"topic": topic, "partitions": count})
    else:
        people().print(f"created topic {topic} with {plural(count, 'partition')}", soft_wrap=True)


@app.command("list", epilog="Example: `tidelog topic list --json`")
def list_topics(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List all topics."""
    admin = Admin(Connection(bootstrap))
    topics = admin.topics()
    offsets = admin.offsets(partition for topic in topics for partition in topic.topic_partitions)
    rows = [
        (
            topic.name,
            len(topic.partitions),
            topic.replication_factor,
            sum(offsets[partition].records for partition in topic.topic_partitions),
        )
        for topic in topics
    ]
    if as_json:
        names = ("topic", "partitions", "replication_factor", "records")
        emit_json([dict(zip(names, row, strict=True)) for row in rows])
    elif not rows:
        people().print("no topics yet: create one with `tidelog topic create NAME`")
    else:
        people().print(add_rows(table("~Topic", "#Partitions", "#Replicas", "#Records"), rows))


@app.command(epilog="Example: `tidelog topic describe orders`")
def describe(
    topic: TopicName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False
) -> None:
    """Show a topic's partitions: leader, replicas, where they begin and end."""
    admin = Admin(Connection(bootstrap))
    found = admin.topic(topic)
    offsets = admin.offsets(found.topic_partitions)
    rows = _partition_rows(found, offsets)
    if as_json:
        emit_json({"topic": found.name, "partitions": rows})
        return
    made = table("#Partition", "#Leader", "~Replicas", "~In sync", "#Start", "#End", "#Records")
    cells = (
        [", ".join(map(str, cell)) if isinstance(cell, list) else cell for cell in row.values()]
        for row in rows
    )
    people().print(add_rows(made, cells))


@app.command(epilog="Example: `tidelog topic delete orders --yes`")
def delete(
    topic: TopicName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete a topic and all of its records. Asks first, at a terminal."""
    admin = Admin(Connection(bootstrap))
    found = admin.topic(topic)
    if not yes and sys.stdin.isatty():
        offsets = admin.offsets(found.topic_partitions)
        count = sum(span.records for span in offsets.values())
        if not typer.confirm(f"Delete topic {topic} and its {plural(count, 'record')}?"):
            people().print("nothing deleted")
            raise typer.Exit(1)
    admin.delete_topic(topic)
    if as_json:
        emit_json({"topic": topic, "deleted": True})
    else:
        people().print(f"deleted topic {topic}", soft_wrap=True)


def _partition_rows(topic: Topic, offsets: dict[TopicPartition, Offsets]) -> list[dict[str, Any]]:
    rows = []
    for partition in topic.partitions:
        span = offsets[TopicPartition(topic.name, partition.number)]
        rows.append(
            {
                "partition": partition.number,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "in_sync": list(partition.in_sync),
                "start_offset": span.start,
                "end_offset": span.end,
                "records": span.records,
            }
        )
    return rows

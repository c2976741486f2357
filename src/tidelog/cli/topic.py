"""`tidelog topic create|list|describe|alter|delete|delete-records`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidelog.cli.config import alter_settings, print_changes
from tidelog.cli.delete_records import delete_records
from tidelog.cli.failure import CommandFailed
from tidelog.cli.names import topic_setting_names, topic_setting_pairs
from tidelog.cli.options import AsJson, Bootstrap, TopicName, pairs
from tidelog.cli.output import add_rows, emit_json, people, plural, table
from tidelog.cli.topic_view import as_document, count_records, show_topic
from tidelog.client import Admin, Connection
from tidelog.client.admin import BROKER_DEFAULT
from tidelog.client.cluster_admin import ClusterAdmin
from tidelog.client.connection import DEFAULT_BOOTSTRAP

app = typer.Typer(
    help="Create, list, describe, alter and delete topics.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    epilog="Example: `tidelog topic create orders --partitions 3`",
)

MOST_PARTITIONS = 100_000
MOST_REPLICAS = 1000
"""What librdkafka asks for at most; beyond it, it does not ask but raises."""

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A topic setting; may be repeated.",
        autocompletion=topic_setting_pairs,
    ),
]


@app.command(epilog="Example: `tidelog topic create orders --partitions 3 --set flush.policy=os`")
def create(
    topic: TopicName,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=MOST_PARTITIONS,
            metavar="N",
            help="How many; the node's default if left out.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            min=1,
            max=MOST_REPLICAS,
            metavar="N",
            help="Copies; the node's default if left out.",
        ),
    ] = None,
    settings: Settings = None,
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
    offsets = admin.offsets(partition for topic in topics for partition in topic.led_partitions)
    rows = [
        (
            topic.name,
            len(topic.partitions),
            topic.replication_factor,
            count_records(topic, offsets),
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
    """Show a topic: its partitions, where they are, their offsets and sizes, and its settings.

    "Behind" says which copies lack records, and how many. Settings of the topic's own come first;
    `tidelog config list` explains them.
    """
    admin = Admin(Connection(bootstrap))
    found = admin.topic(topic)
    offsets = admin.offsets(found.led_partitions)
    sizes = admin.sizes(found)
    settings = admin.settings(topic)
    numbers = [partition.number for partition in found.partitions]
    lags = ClusterAdmin(Connection(bootstrap)).lags(topic, numbers)
    if as_json:
        emit_json(as_document(found, offsets, sizes=sizes, lags=lags, settings=settings))
    else:
        show_topic(found, offsets, sizes=sizes, lags=lags, settings=settings)


@app.command(
    epilog="Example: `tidelog topic alter orders --partitions 6`\n\n"
    "Settings: `tidelog topic alter orders --set retention.ms=3600000 --unset segment.ms`"
)
def alter(
    topic: TopicName,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=MOST_PARTITIONS,
            metavar="N",
            help="How many in all; never fewer than now.",
        ),
    ] = None,
    settings: Settings = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset",
            metavar="NAME",
            help="Take the topic's own value away; may be repeated.",
            autocompletion=topic_setting_names,
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Give a topic more partitions, or other settings. It goes on working meanwhile.

    With more partitions, a key may go to another partition than before.
    """
    changes: dict[str, str | None] = {**pairs(settings or [], option="--set")}
    for name in unset or []:
        if name in changes:
            raise typer.BadParameter(f"{name} can't be both set and unset", param_hint="--unset")
        changes[name] = None
    if partitions is None and not changes:
        raise typer.BadParameter("nothing to alter: give --partitions, --set or --unset")
    admin = Admin(Connection(bootstrap))
    before = len(admin.topic(topic).partitions)
    if partitions is not None and partitions < before:
        raise CommandFailed(
            f"topic {topic!r} has {plural(before, 'partition')}, and partitions can't be taken "
            "away: make a new topic with fewer"
        )
    if changes:
        alter_settings(admin, topic, changes)
    if partitions is not None and partitions > before:
        admin.add_partitions(topic, total=partitions)
    _show_altered(admin, topic, before=before, changes=changes, as_json=as_json)


def _show_altered(
    admin: Admin, topic: str, *, before: int, changes: dict[str, str | None], as_json: bool
) -> None:
    now = len(admin.topic(topic).partitions)
    settings = admin.settings(topic)
    if as_json:
        values = {name: settings[name].value for name in changes if name in settings}
        emit_json({"topic": topic, "partitions": now, "settings": values})
        return
    print_changes(topic, {name: settings[name] for name in changes if name in settings})
    if now != before:
        people().print(f"{topic}: {before:,} → {plural(now, 'partition')}", soft_wrap=True)
    elif not changes:
        people().print(f"{topic}: has {plural(now, 'partition')} already", soft_wrap=True)


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
        count = count_records(found, admin.offsets(found.led_partitions))
        records = "records" if count is None else plural(count, "record")
        if not typer.confirm(f"Delete topic {topic} and its {records}?"):
            people().print("nothing deleted")
            raise typer.Exit(1)
    admin.delete_topic(topic)
    if as_json:
        emit_json({"topic": topic, "deleted": True})
    else:
        people().print(f"deleted topic {topic}", soft_wrap=True)


app.command(
    "delete-records",
    epilog="Example: `tidelog topic delete-records orders --before 30d`\n\n"
    "Empty it, for real: `tidelog topic delete-records orders --before end --yes`",
)(delete_records)

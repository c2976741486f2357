"""`tidelog group list|describe|reset-offsets|delete|delete-offsets`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.group_lag import (
    known_offsets,
    lag_within,
    partition_lags,
    total_lag,
    with_seconds,
)
from tidelog.cli.group_offsets import delete_offsets, reset_offsets
from tidelog.cli.group_view import as_document, show_group
from tidelog.cli.options import AsJson, Bootstrap, GroupName
from tidelog.cli.output import add_rows, emit_json, people, plural, progress, table
from tidelog.client import Admin, Connection
from tidelog.client.admin import Offsets
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.client.group_admin import Group
from tidelog.model.ids import TopicPartition

app = typer.Typer(
    help="See who reads what and how far behind; move or delete a group's offsets.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    epilog="Example: `tidelog group describe billing`",
)

ASKED_TOGETHER = 100
"""Groups between two steps of the progress bar."""


class State(StrEnum):
    """Kafka's states, its words for a rebalance taken together."""

    STABLE = "stable"
    EMPTY = "empty"
    REBALANCING = "rebalancing"

    def has(self, state: str) -> bool:
        return state == self or (self is State.REBALANCING and "rebalanc" in state)


@app.command("list", epilog="Example: `tidelog group list --state empty`")
def list_groups(
    state: Annotated[
        State | None,
        typer.Option(
            "--state",
            metavar="STATE",
            case_sensitive=False,
            help="Only these: stable, empty or rebalancing.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List all groups: state, members, and how many records they are behind."""
    admin = Admin(Connection(bootstrap))
    listed = [group for group in admin.groups() if state is None or state.has(group.state)]
    groups, committed = _described(admin, [group.name for group in listed])
    places = sorted({place: None for offsets in committed.values() for place in offsets})
    spans = known_offsets(admin, admin.topics() if places else [], places)
    rows = [
        (
            group.name,
            group.state,
            group.type,
            len(group.members),
            _lag(committed[group.name], spans),
        )
        for group in groups
    ]
    if as_json:
        names = ("group", "state", "protocol", "members", "lag")
        emit_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        people().print(add_rows(table("~Group", "State", "Protocol", "#Members", "#Lag"), rows))
    elif state is not None:
        people().print(f"no group is {state} now")
    else:
        people().print("no groups yet: `tidelog consume TOPIC --group NAME` makes one")


def _described(
    admin: Admin, names: list[str]
) -> tuple[list[Group], dict[str, dict[TopicPartition, int]]]:
    groups: list[Group] = []
    committed: dict[str, dict[TopicPartition, int]] = {}
    with progress() as bar:
        task = bar.add_task("asking for groups", total=len(names))
        for first in range(0, len(names), ASKED_TOGETHER):
            some = names[first : first + ASKED_TOGETHER]
            groups += admin.described(some)
            committed |= admin.committed_by(some)
            bar.update(task, advance=len(some))
    return groups, committed


def _lag(committed: dict[TopicPartition, int], spans: dict[TopicPartition, Offsets]) -> int | None:
    lags = [lag_within(spans[place], at) for place, at in committed.items() if place in spans]
    return sum(lags) if lags else None


@app.command(epilog="Example: `tidelog group describe billing`")
def describe(
    group: GroupName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False
) -> None:
    """Show a group: its members, who owns what, and how far behind it is.

    Behind, in time, means since the first record that the group has not read.
    """
    connection = Connection(bootstrap)
    admin = Admin(connection)
    found = admin.group(group)
    lags = partition_lags(admin, found, admin.committed(group))
    with progress() as bar:
        task = bar.add_task(
            "reading the first unread records", total=sum(1 for each in lags if each.lag)
        )
        lags = with_seconds(
            connection, lags, on_read=lambda count: bar.update(task, completed=count)
        )
    if as_json:
        emit_json(as_document(found, lags))
    else:
        show_group(found, lags)


app.command(
    "reset-offsets",
    epilog="Example: `tidelog group reset-offsets billing --topic orders --to earliest`\n\n"
    "Two hours back, some partitions, for real: "
    "`tidelog group reset-offsets billing --topic orders:0,2-4 --to 2h --yes`",
)(reset_offsets)

app.command(
    "delete-offsets",
    epilog="Example: `tidelog group delete-offsets billing --topic orders --yes`",
)(delete_offsets)


@app.command(epilog="Example: `tidelog group delete billing --yes`")
def delete(
    group: GroupName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete a group and all it has committed. Asks first, at a terminal."""
    admin = Admin(Connection(bootstrap))
    found = admin.group(group)
    if found.members:
        raise CommandFailed(
            f"group {group!r} has {plural(len(found.members), 'live member')}: stop them first"
        )
    if not yes and sys.stdin.isatty():
        lags = partition_lags(admin, found, admin.committed(group))
        behind = plural(total_lag(lags), "record")
        offsets = plural(len(lags), "committed offset")
        if not typer.confirm(f"Delete group {group}, {behind} behind, and its {offsets}?"):
            people().print("nothing deleted")
            raise typer.Exit(1)
    admin.delete_group(group)
    if as_json:
        emit_json({"group": group, "deleted": True})
    else:
        people().print(f"deleted group {group}", soft_wrap=True)

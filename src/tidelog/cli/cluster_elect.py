"""`tidelog cluster elect`: leaders back where they belong; at need, the fullest replica."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from tidelog.cli.cluster_reassign import OnlyTopics
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import AsJson, Bootstrap
from tidelog.cli.output import add_rows, aside, emit_json, people, plural, table
from tidelog.cli.partition_choice import told_once
from tidelog.cli.unclean_outlook import Outlook, outlook_of, show_outlooks
from tidelog.client import Admin, Connection
from tidelog.client.admin import Partition, Topic
from tidelog.client.cluster_admin import ClusterAdmin
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.client.errors import no_topic
from tidelog.client.unclean_elections import contests
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition

NOBODY = -1
_LOOK_S = 0.1
_HEARSAY_S = 10.0
_LOSS = (
    "an unclean election may lose records that were acknowledged: what the new leader does not "
    "have is gone"
)
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only show what would happen, and ask nothing.")
]


def elect(
    topic: OnlyTopics = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Where nobody leads, the replica that is up and has most: MAY LOSE RECORDS.",
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Elect uncleanly without asking for confirmation.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Let the first replica of each partition lead it, where it is in sync. No data moves.

    With --unclean, partitions that nobody leads get a leader among the replicas that are up: the
    one with the most of the log. It is shown first who has what and what would be lost; without
    --yes you are asked whether to go on.
    """
    admin, cluster = Admin(Connection(bootstrap)), ClusterAdmin(Connection(bootstrap))
    before = _needing(_chosen(admin.topics(), topic), unclean=unclean)
    if not before:
        _show_nothing_to_do(dry_run=dry_run, unclean=unclean, as_json=as_json)
        return
    if unclean:
        aside().print(f"warning: {_LOSS}", style="yellow", soft_wrap=True)
    outlooks: dict[TopicPartition, Outlook] = {}
    if unclean:
        found = contests(Connection(bootstrap), cluster.view(), before)
        outlooks = {place: outlook_of(contest) for place, contest in found.items()}
        if outlooks and not as_json:
            show_outlooks(outlooks)
    if unclean and not (yes or dry_run):
        _confirm(len(before), may_ask=not as_json)
    outcomes: dict[TopicPartition, ErrorCode] = {}
    if not dry_run:
        outcomes = cluster.elect(before, is_unclean=unclean)
        before = _really_needing(before, outcomes)
        if not before:
            _show_nothing_to_do(dry_run=dry_run, unclean=unclean, as_json=as_json)
            return
    after = _wait_for_leaders(admin, topic, outcomes, is_unclean=unclean)
    rows = [
        {
            **_row(place, partition, outcomes=outcomes, leaders=after),
            **(outlooks[place].document() if place in outlooks else {}),
        }
        for place, partition in before.items()
    ]
    if as_json:
        _emit(rows, dry_run=dry_run, unclean=unclean)
    else:
        _show(rows, is_done=not dry_run)
    _check_done(rows)


def _row(
    place: TopicPartition,
    partition: Partition,
    *,
    outcomes: dict[TopicPartition, ErrorCode],
    leaders: dict[TopicPartition, int],
) -> dict[str, Any]:
    return {
        **place._asdict(),
        "leader": partition.leader,
        "new_leader": leaders.get(place),
        "error": _error(outcomes.get(place, ErrorCode.NONE)),
    }


def _check_done(rows: list[dict[str, Any]]) -> None:
    if any(row["error"] for row in rows):
        raise CommandFailed(
            "not every partition got its leader: a node that is not in sync, or not there, "
            "can't lead"
        )


def _confirm(count: int, *, may_ask: bool) -> None:
    """Nothing is lost without somebody having said so."""
    if not (may_ask and sys.stdin.isatty()):
        raise CommandFailed(
            "nothing was elected: an unclean election may lose records; look at what would be lost "
            "with --dry-run, then go on with --yes"
        )
    if not typer.confirm(f"Elect {plural(count, 'leader')} uncleanly?"):
        raise CommandFailed("nothing was elected")


def _chosen(topics: list[Topic], names: list[str] | None) -> list[Topic]:
    _check_names(topics, names)
    return [topic for topic in topics if not names or topic.name in names]


def _placed(topics: list[Topic]) -> dict[TopicPartition, Partition]:
    return {
        place: partition
        for topic in topics
        for place, partition in zip(topic.topic_partitions, topic.partitions, strict=True)
    }


def _needing(topics: list[Topic], *, unclean: bool) -> dict[TopicPartition, Partition]:
    """Whose leader is not the one that should be; under --unclean those without any."""
    return {
        place: partition
        for place, partition in _placed(topics).items()
        if (partition.leader == NOBODY if unclean else partition.leader != partition.replicas[0])
    }


def _really_needing(
    before: dict[TopicPartition, Partition], outcomes: dict[TopicPartition, ErrorCode]
) -> dict[TopicPartition, Partition]:
    """The node that was asked who leads may not have heard of an election that the controller has
    held already."""
    return {
        place: partition
        for place, partition in before.items()
        if outcomes.get(place) is not ErrorCode.ELECTION_NOT_NEEDED
    }


def _wait_for_leaders(
    admin: Admin,
    names: list[str] | None,
    outcomes: dict[TopicPartition, ErrorCode],
    *,
    is_unclean: bool,
) -> dict[TopicPartition, int]:
    """Who leads what was elected. The node we ask may hear of it a moment later."""
    elected = [place for place, code in outcomes.items() if code is ErrorCode.NONE]
    deadline = time.monotonic() + _HEARSAY_S
    while True:
        found = _placed(_chosen(admin.topics(), names))
        leaders = {place: found[place].leader for place in elected if place in found}
        is_told = all(_is_elected(found[place], is_unclean=is_unclean) for place in leaders)
        if is_told or time.monotonic() >= deadline:
            return leaders
        time.sleep(_LOOK_S)


def _is_elected(partition: Partition, *, is_unclean: bool) -> bool:
    if is_unclean:
        return partition.leader != NOBODY
    return partition.leader == partition.replicas[0]


def _check_names(topics: list[Topic], names: list[str] | None) -> None:
    known = [topic.name for topic in topics]
    for name in names or []:
        if name not in known:
            raise no_topic(name)


def _error(code: ErrorCode) -> str | None:
    return None if code is ErrorCode.NONE else code.explanation


def _show_nothing_to_do(*, dry_run: bool, unclean: bool, as_json: bool) -> None:
    if as_json:
        _emit([], dry_run=dry_run, unclean=unclean)
    elif unclean:
        people().print("Every partition has a leader: there is nothing to elect uncleanly.")
    else:
        people().print("Every partition has the leader it should have.")


def _emit(rows: list[dict[str, Any]], *, dry_run: bool, unclean: bool) -> None:
    emit_json({"dry_run": dry_run, "unclean": unclean, "partitions": rows})


def _show(rows: list[dict[str, Any]], *, is_done: bool) -> None:
    console = people()
    places = [TopicPartition(row["topic"], row["partition"]) for row in rows]
    shown = (
        (*cells, _name(row["leader"]), "→", _new_name(row), row["error"] or "")
        for cells, row in zip(told_once(places), rows, strict=True)
    )
    console.print(add_rows(table("~Topic", "#Partition", "#Leader", "", "#New", "~Error"), shown))
    console.print()
    if is_done:
        done = sum(row["error"] is None for row in rows)
        console.print(f"{plural(done, 'leader')} elected.")
    else:
        console.print(f"{plural(len(rows), 'leader')} would be elected.")
        console.print("Nothing has changed: this is what happens without --dry-run.")


def _new_name(row: dict[str, Any]) -> str:
    if row["error"] is not None:
        return "-"
    return "?" if row["new_leader"] is None else _name(row["new_leader"])


def _name(leader: int) -> str:
    return "none" if leader == NOBODY else str(leader)

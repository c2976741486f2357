"""`tidelog cluster elect`: leaders back where they belong; at need, whoever is alive."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from tidelog.cli.cluster_reassign import OnlyTopics
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import AsJson, Bootstrap, Carry
from tidelog.cli.output import add_rows, aside, emit_json, people, plural, table
from tidelog.cli.partition_choice import told_once
from tidelog.client import Admin, Connection
from tidelog.client.admin import Partition, Topic
from tidelog.client.cluster_admin import ClusterAdmin
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.client.errors import no_topic
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition

NOBODY = -1
_LOOK_S = 0.1
_HEARSAY_S = 10.0
_LOSS = (
    "an unclean election may lose records that were acknowledged: what the new leader does not "
    "have is gone"
)


def elect(
    topic: OnlyTopics = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Where nobody leads, whoever is alive: MAY LOSE RECORDS."),
    ] = False,
    yes: Carry = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Let the first replica of each partition lead it, where it is in sync. No data moves.

    With --unclean, partitions that nobody leads get whoever is alive: only shown, until --yes.
    """
    if unclean:
        aside().print(f"warning: {_LOSS}", style="yellow", soft_wrap=True)
    admin, cluster = Admin(Connection(bootstrap)), ClusterAdmin(Connection(bootstrap))
    before = _needing(_chosen(admin.topics(), topic), unclean=unclean)
    is_done = yes or not unclean
    outcomes: dict[TopicPartition, ErrorCode] = {}
    if is_done and before:
        outcomes = cluster.elect(before, is_unclean=unclean)
    after = _wait_for_leaders(admin, topic, outcomes, is_unclean=unclean)
    rows = [
        {
            **place._asdict(),
            "leader": partition.leader,
            "new_leader": after.get(place),
            "error": _error(outcomes.get(place, ErrorCode.NONE)),
        }
        for place, partition in before.items()
    ]
    if as_json:
        emit_json({"dry_run": not is_done, "unclean": unclean, "partitions": rows})
    else:
        _show(rows, is_done=is_done)
    if any(row["error"] for row in rows):
        raise CommandFailed(
            "not every partition got its leader: a node that is not in sync, or not there, "
            "can't lead"
        )


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
    fine = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    return None if code in fine else code.explanation


def _show(rows: list[dict[str, Any]], *, is_done: bool) -> None:
    console = people()
    if not rows:
        console.print("Every partition has the leader it should have.")
        return
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
        console.print("Nothing has changed: this is what --yes would do.")


def _new_name(row: dict[str, Any]) -> str:
    if row["error"] is not None:
        return "-"
    return "?" if row["new_leader"] is None else _name(row["new_leader"])


def _name(leader: int) -> str:
    return "none" if leader == NOBODY else str(leader)

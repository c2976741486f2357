"""Moving and deleting what a group has committed: shown first, done with --yes."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.names import topic_names
from tidelog.cli.options import AsJson, Bootstrap, Carry, GroupName
from tidelog.cli.output import add_rows, aside, emit_json, people, plural, table
from tidelog.cli.partition_choice import parse_choice, places_text, told_once
from tidelog.cli.reset_plan import Move, ResetPoint, parse_reset, plan_moves
from tidelog.client import Admin, Connection
from tidelog.client.admin import Topic
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.client.errors import no_topic
from tidelog.client.group_admin import Group
from tidelog.model.ids import TopicPartition
from tidelog.model.settings import Value

Committed = dict[TopicPartition, int]

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:P,...]",
        help="A topic or some of its partitions (orders:0,2-4); repeatable.",
        autocompletion=topic_names,
    ),
]
AllTopics = Annotated[
    bool, typer.Option("--all-topics", help="Every topic the group has committed offsets for.")
]
DRY_RUN = "Nothing has changed: this is what --yes would do."


def reset_offsets(
    group: GroupName,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="earliest, latest, an offset, a time (2030-01-31T12:00), so long ago (10m, 2h), "
            "or +N or -N records from where it is.",
        ),
    ],
    topic: Topics = None,
    all_topics: AllTopics = False,
    yes: Carry = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Move a group to another place in its topics. Shows what would change; --yes does it.

    The group must have no members while it is moved. A group that does not exist yet is made.
    """
    point = _reset_point(to)
    _check_choice(topic, all_topics=all_topics)
    admin = Admin(Connection(bootstrap))
    found = next(iter(admin.described([group])), None)
    committed = admin.committed(group)
    places = _places(admin, topic or [], committed=committed, group=group)
    moves = _moves(admin, places, committed=committed, point=point)
    if yes:
        _refuse_if_live(group, found, what="offsets of a group that runs can't be moved")
        admin.set_committed(group, {move.partition: move.new for move in moves})
    if as_json:
        emit_json({"group": group, "dry_run": not yes, "partitions": _move_rows(moves)})
        return
    _show_moves(moves)
    people().print(_what_it_means(moves, is_done=yes))
    if not yes:
        people().print(DRY_RUN)
        _mention_obstacles(group, found)


def delete_offsets(
    group: GroupName,
    topic: Topics = None,
    all_topics: AllTopics = False,
    yes: Carry = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Let a group forget what it has committed. Shows what would go; --yes does it.

    The group must not read these topics at the time. Deleted offsets no longer count as lag, and
    under `cleanup.policy=consumed` no longer hold records back.
    """
    _check_choice(topic, all_topics=all_topics)
    admin = Admin(Connection(bootstrap))
    found = admin.group(group)
    committed = admin.committed(group)
    chosen = _committed_places(topic or [], committed=committed, group=group)
    if yes:
        admin.delete_committed(group, chosen)
    if as_json:
        rows: list[dict[str, Value]] = [
            {**place._asdict(), "committed_offset": committed[place]} for place in chosen
        ]
        emit_json({"group": group, "dry_run": not yes, "partitions": rows})
        return
    rows_shown = (
        (*cells, committed[place]) for cells, place in zip(told_once(chosen), chosen, strict=True)
    )
    people().print(add_rows(table("~Topic", "#Partition", "#Committed"), rows_shown))
    people().print()
    done = "Deleted" if yes else "Would be deleted"
    people().print(f"{done}: {plural(len(chosen), 'committed offset')} of group {group}.")
    if not yes:
        people().print(DRY_RUN)
        _mention_obstacles(group, found)


# --- which partitions -------------------------------------------------------------------------


def _check_choice(topics: list[str] | None, *, all_topics: bool) -> None:
    if bool(topics) == all_topics:
        raise typer.BadParameter(
            "say which topics: --topic TOPIC or --all-topics"
            if not topics
            else "give --topic or --all-topics, not both"
        )
    try:
        for text in topics or []:
            parse_choice(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--topic") from None


def _places(
    admin: Admin, texts: list[str], *, committed: Committed, group: str
) -> list[TopicPartition]:
    """The partitions to move. All topics are those it has committed anything for."""
    topics = {topic.name: topic for topic in admin.topics()}
    if not texts:
        names = dict.fromkeys(place.topic for place in committed)
        found = [
            place for name in names if name in topics for place in topics[name].topic_partitions
        ]
        if not found:
            raise CommandFailed(
                f"group {group!r} has committed nothing: name the topics with --topic"
            )
        return found
    return list(dict.fromkeys(place for text in texts for place in _chosen(text, topics)))


def _chosen(text: str, topics: dict[str, Topic]) -> list[TopicPartition]:
    choice = parse_choice(text)
    if choice.topic not in topics:
        raise no_topic(choice.topic)
    return choice.of(topics[choice.topic])


def _committed_places(
    texts: list[str], *, committed: Committed, group: str
) -> list[TopicPartition]:
    """The partitions to forget: only those it has committed; the topic may be long gone."""
    choices = [parse_choice(text) for text in texts]
    found = [
        place
        for place in committed
        if not choices
        or any(
            place.topic == choice.topic
            and (choice.partitions is None or place.partition in choice.partitions)
            for choice in choices
        )
    ]
    if not found:
        of_what = f" for {' or '.join(texts)}" if texts else ""
        raise CommandFailed(f"group {group!r} has committed nothing{of_what}")
    return found


# --- the move ---------------------------------------------------------------------------------


def _reset_point(text: str) -> ResetPoint:
    try:
        return parse_reset(text, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to") from None


def _moves(
    admin: Admin, places: list[TopicPartition], *, committed: Committed, point: ResetPoint
) -> list[Move]:
    at_time = {}
    if getattr(point, "kind", "") == "time":
        at_time = admin.offsets_at(places, point.number)  # type: ignore[union-attr]
    try:
        return plan_moves(
            point,
            spans=admin.offsets(places),
            committed=committed,
            offset_at=at_time.__getitem__,
        )
    except ValueError as error:
        raise CommandFailed(str(error)) from None


def _refuse_if_live(group: str, found: Group | None, *, what: str) -> None:
    if found is not None and found.members:
        raise CommandFailed(
            f"group {group!r} has {plural(len(found.members), 'live member')} "
            f"({_who(found)}): stop them first, {what}"
        )


def _mention_obstacles(group: str, found: Group | None) -> None:
    if found is None:
        people().print(f"There is no group {group} yet: --yes makes it.")
    elif found.members:
        aside().print(
            f"--yes will be refused while the group has "
            f"{plural(len(found.members), 'live member')}: {_who(found)}",
            style="yellow",
        )


def _who(group: Group) -> str:
    names = [f"{member.client_id} at {member.host.removeprefix('/')}" for member in group.members]
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _move_rows(moves: list[Move]) -> list[dict[str, Any]]:
    return [
        {
            **move.partition._asdict(),
            "old_offset": move.old,
            "new_offset": move.new,
            "change": move.change,
            "is_bounded": move.is_bounded,
        }
        for move in moves
    ]


def _show_moves(moves: list[Move]) -> None:
    rows = (
        (*cells, move.old, "→", move.new, _signed(move.change))
        for cells, move in zip(told_once(move.partition for move in moves), moves, strict=True)
    )
    people().print(
        add_rows(table("~Topic", "#Partition", "#Committed", "", "#New", "#Change"), rows)
    )
    people().print()


def _signed(change: int | None) -> str:
    if change is None:
        return "new"
    return f"{change:+,}" if change else "none"


def _what_it_means(moves: list[Move], *, is_done: bool) -> str:
    again = sum(-move.change for move in moves if move.change is not None and move.change < 0)
    skipped = sum(move.change for move in moves if move.change is not None and move.change > 0)
    changed = sum(1 for move in moves if move.change != 0)
    verb = "moved" if is_done else "would move"
    parts = [f"{plural(changed, 'partition')} {verb}"]
    if again:
        parts.append(f"{plural(again, 'record')} to read again")
    if skipped:
        parts.append(f"{plural(skipped, 'record')} skipped")
    text = f"{', '.join(parts)}."
    bounded = places_text(move.partition for move in moves if move.is_bounded)
    if bounded:
        text += f"\nAs near as the log allows, since it begins later or ends before: {bounded}."
    return text

"""`tidelog cluster reassign`: partitions to other nodes, shown first, done with --yes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.move_plan import (
    Change,
    as_rows,
    changes_of,
    image_of,
    leaderless_of,
    plan_text,
    show_plan,
)
from tidelog.cli.moving import Mover, check_factor
from tidelog.cli.names import topic_names
from tidelog.cli.options import AsJson, Bootstrap, Carry
from tidelog.cli.output import aside, emit_json, people, plural
from tidelog.cli.partition_choice import places_text
from tidelog.client import Admin, Connection
from tidelog.client.admin import Topic
from tidelog.client.cluster_admin import ClusterAdmin, ClusterView
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.client.errors import no_topic
from tidelog.controller.reassignments import Reassignment, plan_spread
from tidelog.controller.spreading import plan_factor, plan_leaders
from tidelog.metadata.image import Image, PartitionState
from tidelog.model.ids import NodeId, TopicPartition

DRY_RUN = "Nothing has changed: this is what --yes would do."

Throttle = Annotated[
    float | None,
    typer.Option(
        "--throttle",
        min=0.001,
        metavar="MB/S",
        help="Let each node fetch no more than this for new copies, in megabytes a second.",
    ),
]


OnlyTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="Only this topic; may be repeated. All, if left out.",
        autocompletion=topic_names,
    ),
]


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the command line asks for; nothing but topics means an even spread."""

    topics: list[str] | None
    partition: int | None
    replicas: tuple[NodeId, ...] | None
    factor: int | None
    throttle_mb: float | None = None


def reassign(
    topic: OnlyTopics = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", min=0, metavar="P", help="Only this one; with --replicas."),
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            "--replicas",
            metavar="ID,ID,…",
            help="The nodes that are to have it, the one that is to lead first.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", min=1, max=1000, metavar="N", help="Copies of each."),
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take back what is being moved.")
    ] = False,
    throttle: Throttle = None,
    yes: Carry = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Spread partitions evenly over all nodes, or put some where you want them.

    Shows what would move; --yes moves it and waits. Ctrl-C is safe: the cluster goes on, and the
    same command again waits for the rest.
    """
    wish = _Wish(topic, partition, _wanted_replicas(replicas), replication_factor, throttle)
    _check_options(wish, cancel=cancel)
    admin, cluster = Admin(Connection(bootstrap)), ClusterAdmin(Connection(bootstrap))
    if cancel:
        _cancel(admin, cluster, wish, yes=yes, as_json=as_json)
    else:
        _reassign(admin, cluster, wish, yes=yes, as_json=as_json)


def _reassign(
    admin: Admin, cluster: ClusterAdmin, wish: _Wish, *, yes: bool, as_json: bool
) -> None:
    all_topics = admin.topics()
    topics = _chosen(all_topics, wish.topics)
    view, moves = cluster.view(), cluster.moves()
    image = image_of(view.nodes.values(), all_topics, moves)
    leaderless = leaderless_of(image)
    wanted = _plan(image, topics, view, wish)
    plan = [move for move in wanted if move.name not in leaderless]
    if len(plan) < len(wanted):
        left_out = places_text(move.name for move in wanted if move.name in leaderless)
        aside().print(
            f"left out, since nobody leads it and so nobody can copy it: {left_out}",
            style="yellow",
            soft_wrap=True,
        )
    sizes = {place: size for one in topics for place, size in admin.sizes(one).items()}
    changes = changes_of(image, plan, sizes)
    names = [one.name for one in topics]
    under_way = [place for place in moves if place.topic in names]
    if yes:
        mover = Mover(admin, cluster)
        targets = {change.place: change.new for change in changes}
        mover.move(targets, under_way=under_way, throttle_mb=wish.throttle_mb)
        mover.elect_preferred(list(targets))
    _tell(changes, under_way, yes=yes, as_json=as_json)


def _tell(
    changes: list[Change], under_way: list[TopicPartition], *, yes: bool, as_json: bool
) -> None:
    if as_json:
        emit_json({"dry_run": not yes, "under_way": len(under_way), "partitions": as_rows(changes)})
        return
    show_plan(changes)
    if under_way:
        verb = "was being moved before" if yes else "is being moved already"
        people().print(f"{plural(len(under_way), 'partition')} {verb}.")
    if not changes:
        people().print("Everything else is where it should be." if under_way else "All is even.")
        return
    people().print(plan_text(changes, is_done=yes))
    if not yes:
        people().print(DRY_RUN)


def _check_options(wish: _Wish, *, cancel: bool) -> None:
    if wish.partition is not None and (len(wish.topics or []) != 1 or wish.replicas is None):
        raise typer.BadParameter("--partition needs one --topic and --replicas ID,ID,…")
    if wish.replicas is not None and len(wish.topics or []) != 1:
        raise typer.BadParameter("--replicas needs one --topic: say of which")
    if wish.replicas is not None and wish.factor is not None:
        raise typer.BadParameter("give --replicas or --replication-factor, not both")
    if cancel and (wish.replicas is not None or wish.factor is not None):
        raise typer.BadParameter("--cancel takes back what is being moved: it needs no target")


def _wanted_replicas(text: str | None) -> tuple[NodeId, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) != len(parts):
        raise typer.BadParameter(
            f"must be different node ids as 1,2,3: not {text!r}", param_hint="--replicas"
        )
    return tuple(NodeId(int(part)) for part in parts)


def _chosen(topics: list[Topic], names: list[str] | None) -> list[Topic]:
    if not names:
        return topics
    by_name = {topic.name: topic for topic in topics}
    for name in names:
        if name not in by_name:
            raise no_topic(name)
    return [by_name[name] for name in dict.fromkeys(names)]


def _plan(image: Image, topics: list[Topic], view: ClusterView, wish: _Wish) -> list[Reassignment]:
    states = [state for topic in topics for state in image.topics[topic.name].partitions]
    if wish.replicas is not None:
        for node_id in wish.replicas:
            if node_id not in view.nodes:
                raise CommandFailed(f"there is no node {node_id}: see `tidelog cluster status`")
        topics[0].chosen(wish.partition)
        return _plan_given(states, wish.partition, wish.replicas)
    if wish.factor is not None:
        check_factor(wish.factor, len(image.usable_nodes()))
        settled = [state for state in states if not state.is_reassigning]
        return plan_leaders(image, states, plan_factor(image, settled, wish.factor))
    names = {state.name for state in states}
    spread = [move for move in plan_spread(image) if move.name in names]
    return plan_leaders(image, states, spread)


def _plan_given(
    states: list[PartitionState], partition: int | None, replicas: tuple[NodeId, ...]
) -> list[Reassignment]:
    return [
        Reassignment(state.name, replicas)
        for state in states
        if partition in (None, state.name.partition) and state.target_replicas != replicas
    ]


def _cancel(admin: Admin, cluster: ClusterAdmin, wish: _Wish, *, yes: bool, as_json: bool) -> None:
    names = [topic.name for topic in _chosen(admin.topics(), wish.topics)]
    mover = Mover(admin, cluster)
    moves = {place: move for place, move in cluster.moves().items() if place.topic in names}
    if yes:
        cluster.move(dict.fromkeys(moves))
        mover.wait(list(moves))
        mover.unthrottle()
    if as_json:
        rows = [{**place._asdict(), "replicas": list(moves[place].replicas)} for place in moves]
        emit_json({"dry_run": not yes, "cancelled": rows})
    elif not moves:
        people().print("Nothing is being moved.")
    else:
        done = "taken back" if yes else "would be taken back"
        people().print(f"{plural(len(moves), 'move')} {done}.")
        if not yes:
            people().print(DRY_RUN)

"""`tidelog cluster drain`: everything off a node; with --remove it is no member any more."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tidelog.cli.cluster_reassign import DRY_RUN, Throttle
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
from tidelog.cli.moving import Mover
from tidelog.cli.options import AsJson, Bootstrap, Carry
from tidelog.cli.output import aside, emit_json, people, plural
from tidelog.cli.partition_choice import places_text
from tidelog.client import Admin, Connection
from tidelog.client.cluster_admin import ClusterAdmin
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.controller.reassignments import Reassignment, plan_drain
from tidelog.metadata.image import Image
from tidelog.model.ids import NodeId, TopicPartition

_LOOK_S = 0.3


def drain(
    node: Annotated[int, typer.Argument(metavar="NODE", min=0, help="The node's id.")],
    remove: Annotated[
        bool,
        typer.Option(
            "--remove", help="Then take its vote, wait until it is stopped, and forget it."
        ),
    ] = False,
    throttle: Throttle = None,
    yes: Carry = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Move everything off a node, leaders first. Shows what would move; --yes moves it and waits.

    Ctrl-C is safe: the cluster goes on, and the same command again waits for the rest.
    """
    admin, cluster = Admin(Connection(bootstrap)), ClusterAdmin(Connection(bootstrap))
    view, moves = cluster.view(), cluster.moves()
    _check_known(node, cluster, is_registered=node in view.nodes)
    topics = admin.topics()
    image = image_of(view.nodes.values(), topics, moves)
    plan, stuck = plan_drain(image, NodeId(node))
    _check_movable(node, image, plan, stuck)
    sizes = {place: size for one in topics for place, size in admin.sizes(one).items()}
    changes = changes_of(image, plan, sizes)
    leaving = [place for place, move in moves.items() if node in move.removing]
    mover = Mover(admin, cluster)
    if yes:
        _hand_over(mover, cluster, image, NodeId(node))
        targets = {change.place: change.new for change in changes}
        mover.move(targets, under_way=leaving, throttle_mb=throttle)
        if remove:
            _remove(cluster, node)
    if as_json:
        told = {"node": node, "dry_run": not yes, "removed": yes and remove}
        emit_json({**told, "partitions": as_rows(changes)})
        return
    show_plan(changes)
    people().print(_what_it_means(node, changes, len(leaving), yes=yes, remove=remove))


def _what_it_means(
    node: int, changes: list[Change], leaving: int, *, yes: bool, remove: bool
) -> str:
    lines = []
    if leaving and not yes:
        verb = "is" if leaving == 1 else "are"
        lines.append(f"{plural(leaving, 'partition')} {verb} being moved off it already.")
    if changes:
        lines.append(plan_text(changes, is_done=yes))
    if yes or not changes:
        lines.append(f"Node {node} keeps nothing{'' if yes or not leaving else ' else'}.")
    if yes and remove:
        lines[-1] = f"Node {node} is no member any more: it need not be started again."
    return "\n".join(lines if yes else [*lines, DRY_RUN])


def _check_known(node: int, cluster: ClusterAdmin, *, is_registered: bool) -> None:
    """A node that was unregistered may still have its vote: then there is something left to do."""
    if not is_registered and node not in cluster.quorum().voters:
        raise CommandFailed(f"there is no node {node}: see `tidelog cluster status`")


def _check_movable(
    node: int, image: Image, plan: list[Reassignment], stuck: list[TopicPartition]
) -> None:
    if stuck:
        raise CommandFailed(
            f"node {node} can't be drained: every other node that is up has a copy of "
            f"{places_text(stuck)} already. Add a node, or keep fewer copies with "
            "`tidelog cluster reassign --replication-factor N`"
        )
    leaderless = leaderless_of(image)
    lost = [move.name for move in plan if move.name in leaderless]
    if lost:
        raise CommandFailed(
            f"node {node} can't be drained: nobody leads {places_text(lost)}, so nobody can copy "
            "it. Start the nodes that have it; if they are lost, delete it or see "
            "`tidelog cluster elect --unclean`"
        )


def _hand_over(mover: Mover, cluster: ClusterAdmin, image: Image, node: NodeId) -> None:
    """What it leads and others have is led by others before anything is copied: clients go there
    at once, and the node has its disk and its line for the copying."""
    led: dict[TopicPartition, tuple[NodeId, ...]] = {}
    for state in image.partitions():
        others = [each for each in state.replicas if each != node]
        ready = [each for each in others if each in state.isr and image.is_usable(each)]
        if state.leader == node and ready and not state.is_reassigning:
            late = [each for each in others if each not in ready]
            led[state.name] = (*ready, *late, node)
    if led:
        cluster.move(led)
        mover.wait(list(led))
        mover.elect_preferred(list(led))


def _remove(cluster: ClusterAdmin, node: int) -> None:
    voter = cluster.quorum().voters.get(node)
    if voter is not None:
        cluster.remove_voter(node, voter.directory_id)
    known = cluster.view().nodes.get(node)
    if known is None:
        return
    if not known.is_fenced:
        aside().print(
            f"node {node} at {known.address} keeps nothing and has no vote: stop it now "
            "(waiting for that; Ctrl-C and the same command again are fine)",
            soft_wrap=True,
        )
    while known is not None and not known.is_fenced:
        time.sleep(_LOOK_S)
        known = cluster.view().nodes.get(node)
    cluster.unregister(node)

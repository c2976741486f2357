"""`tidelog cluster status`: who is there, who agrees on the metadata, and what is not in order."""

from __future__ import annotations

from typing import Any, NamedTuple

from tidelog.cli.move_plan import listed
from tidelog.cli.options import AsJson, Bootstrap
from tidelog.cli.output import add_rows, emit_json, people, plural, table
from tidelog.cli.partition_choice import told_once
from tidelog.client import Admin, ClientError, Connection
from tidelog.client.admin import Partition, Topic
from tidelog.client.cluster_admin import ClusterAdmin, ClusterNode, ClusterView, QuorumView
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.model.ids import TopicPartition
from tidelog.model.topic_settings import INTERNAL_FACTOR

Placed = dict[TopicPartition, Partition]

_PATIENCE_S = 2.0

NOBODY = QuorumView(-1, -1, -1, {}, {})
"""While the voters have no leader."""


_OFFSETS = "__consumer_offsets"


class Lacking(NamedTuple):
    """A topic of which `partitions` have fewer than the `wanted` copies, at least `copies`."""

    topic: str
    wanted: int
    copies: int
    partitions: int


def status(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the nodes, what each leads and keeps, and what is not as it should be.

    "Metadata" says who agrees on the cluster's metadata (its leader is the controller, the voters
    count, observers follow), "Behind" how many records of it a node lacks.
    """
    cluster = ClusterAdmin(Connection(bootstrap))
    view, quorum = cluster.view(), _quorum(cluster)
    placed = _placed(Admin(Connection(bootstrap)).topics())
    rows = [_node_row(node, quorum, placed) for node in view.nodes.values()]
    troubled = {
        place: partition
        for place, partition in placed.items()
        if not partition.is_led or len(partition.in_sync) < len(partition.replicas)
    }
    moving = len(cluster.moves()) if quorum is not NOBODY else 0
    lacking = _lacking(Admin(Connection(bootstrap)), view, placed)
    if as_json:
        emit_json(
            {
                "cluster_id": view.cluster_id,
                "nodes": rows,
                "quorum": _quorum_document(quorum),
                "partitions": len(placed),
                "moving": moving,
                "troubled": [_troubled_row(*each) for each in troubled.items()],
                "lacking_copies": [row._asdict() for row in lacking],
            }
        )
        return
    _show_nodes(rows)
    _show_quorum(view, quorum)
    _show_partitions(len(placed), moving, troubled)
    _show_lacking(lacking)


def _lacking(admin: Admin, view: ClusterView, placed: Placed) -> list[Lacking]:
    """The topics with partitions that have fewer copies than they are to have: an internal topic
    as it is configured, any other as the partition of the topic that has most."""
    copies: dict[str, list[int]] = {}
    for place, partition in placed.items():
        copies.setdefault(place.topic, []).append(len(partition.replicas))
    found = []
    for topic, counts in copies.items():
        wanted = max(counts)
        if topic == _OFFSETS and len(view.nodes) > 1:
            wanted = _configured_copies(admin, view, topic) or wanted
        few = [count for count in counts if count < wanted]
        if few:
            found.append(Lacking(topic, wanted, min(few), len(few)))
    return found


def _configured_copies(admin: Admin, view: ClusterView, topic: str) -> int | None:
    """As a node that is up tells it; None if none does."""
    node_id = next((node.node_id for node in view.nodes.values() if not node.is_fenced), None)
    if node_id is None:
        return None
    try:
        own = int(admin.settings(topic)[INTERNAL_FACTOR].value or -1)
        told = admin.node_settings(node_id)["offsets.topic.replication.factor"].value
    except (ClientError, KeyError):
        return None
    return own if own > 0 else int(told or 0) or None


def _quorum(cluster: ClusterAdmin) -> QuorumView:
    """Who looks wants an answer soon, also while there is no leader to ask."""
    try:
        return cluster.quorum(patience_s=_PATIENCE_S)
    except ClientError:
        return NOBODY


def _placed(topics: list[Topic]) -> Placed:
    return {
        place: partition
        for topic in topics
        for place, partition in zip(topic.topic_partitions, topic.partitions, strict=True)
    }


def _node_row(node: ClusterNode, quorum: QuorumView, placed: Placed) -> dict[str, Any]:
    node_id = node.node_id
    replica = quorum.voters.get(node_id) or quorum.observers.get(node_id)
    return {
        "node": node_id,
        "address": node.address,
        "rack": node.rack,
        "is_fenced": node.is_fenced,
        "is_controller": node_id == quorum.leader,
        "is_voter": None if quorum is NOBODY else node_id in quorum.voters,
        "metadata_lag": None if replica is None or node.is_fenced else replica.lag,
        "leads": sum(partition.leader == node_id for partition in placed.values()),
        "keeps": sum(node_id in partition.replicas for partition in placed.values()),
    }


def _quorum_document(quorum: QuorumView) -> dict[str, Any]:
    return {
        "leader": quorum.leader,
        "epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "voters": list(quorum.voters),
        "observers": list(quorum.observers),
    }


def _troubled_row(place: TopicPartition, partition: Partition) -> dict[str, Any]:
    return {
        **place._asdict(),
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.in_sync),
    }


def _show_nodes(rows: list[dict[str, Any]]) -> None:
    made = table("#Node", "~Address", "State", "Metadata", "#Behind", "#Leads", "#Keeps")
    shown = (
        (
            row["node"],
            row["address"],
            "fenced" if row["is_fenced"] else "up",
            _part(row),
            row["metadata_lag"],
            row["leads"],
            row["keeps"],
        )
        for row in rows
    )
    people().print(add_rows(made, shown))
    people().print()


def _part(row: dict[str, Any]) -> str:
    if row["is_controller"]:
        return "leader"
    if row["is_voter"] is None:
        return "?"
    return "voter" if row["is_voter"] else "observer"


def _show_quorum(view: ClusterView, quorum: QuorumView) -> None:
    if quorum is NOBODY:
        people().print(
            "no controller: nothing can be decided until more than half of the voters are up",
            style="yellow",
        )
        return
    strangers = [node_id for node_id in quorum.voters if node_id not in view.nodes]
    if strangers:
        people().print(f"voters that are not registered: {listed(strangers)}", style="yellow")
    away = [node.node_id for node in view.nodes.values() if node.is_fenced]
    if away:
        noun = "node" if len(away) == 1 else "nodes"
        people().print(f"{noun} {listed(away)} not heard of: nothing is led there", style="yellow")


def _show_partitions(count: int, moving: int, troubled: Placed) -> None:
    console = people()
    if moving:
        verb = "is" if moving == 1 else "are"
        console.print(f"{plural(moving, 'partition')} {verb} being moved")
    if not troubled:
        console.print(f"{plural(count, 'partition')}, all with a leader and all in sync")
        return
    console.print(f"{len(troubled):,} of {plural(count, 'partition')} not as they should be:")
    shown = (
        (
            *cells,
            partition.leader if partition.is_led else "none",
            listed(partition.replicas),
            listed(partition.in_sync),
        )
        for cells, partition in zip(told_once(troubled), troubled.values(), strict=True)
    )
    wanting = table("~Topic", "#Partition", "#Leader", "~Replicas", "~In sync")
    console.print(add_rows(wanting, shown))


def _show_lacking(lacking: list[Lacking]) -> None:
    """A copy that was never made is missed by nobody who looks at who is in sync."""
    if not lacking:
        return
    console = people()
    console.print()
    console.print("Topics with fewer copies than they are to have:")
    made = table("~Topic", "#Partitions", "#Copies", "#Wanted")
    shown = ((row.topic, row.partitions, row.copies, row.wanted) for row in lacking)
    console.print(add_rows(made, shown))
    if any(row.topic == _OFFSETS for row in lacking):
        console.print(f"{_OFFSETS} gets the others by itself when there are nodes for them.")

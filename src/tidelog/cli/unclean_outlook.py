"""What `tidelog cluster elect --unclean` shows before it acts: who has how much, and what is lost.

The leader named here is found with the controller's own rule, from what the nodes say now. The
controller asks them again before it decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidelog.cli.move_plan import listed
from tidelog.cli.output import add_rows, people, table
from tidelog.cli.partition_choice import told_once
from tidelog.client.unclean_elections import Contest, ReplicaLog
from tidelog.controller.elections import choose_unclean_leader
from tidelog.controller.log_ends import LogEnd
from tidelog.model.ids import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicPartition,
)


class Outlook(NamedTuple):
    """Of one partition. `known_lost` counts the records that replicas which are up have beyond
    what the new leader has; what replicas in `down` have beyond it nobody knows."""

    replicas: tuple[ReplicaLog, ...]
    leader: int
    known_lost: int
    down: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        return {
            "would_lead": self.leader,
            "known_lost": self.known_lost,
            "replicas": [
                {
                    "node": replica.node_id,
                    "is_up": replica.is_up,
                    "last_epoch": replica.last_epoch,
                    "end_offset": replica.end_offset,
                    "high_watermark": replica.high_watermark,
                    "is_empty": replica.end_offset == 0,
                    "may_have_lost_records": replica.has_doubt,
                }
                for replica in self.replicas
            ],
        }


def outlook_of(contest: Contest) -> Outlook:
    """Who would lead, by the rule of `controller/elections.py`, and what that costs."""
    up = {NodeId(replica.node_id) for replica in contest.replicas if replica.is_up}
    told = {
        NodeId(each.node_id): LogEnd(
            NO_BROKER_EPOCH, LeaderEpoch(each.last_epoch), Offset(each.end_offset)
        )
        for each in contest.replicas
        if each.last_epoch is not None and each.end_offset is not None
    }
    leader = choose_unclean_leader(
        [NodeId(replica.node_id) for replica in contest.replicas],
        last_known=[NodeId(node_id) for node_id in contest.last_known],
        is_usable=lambda node_id: node_id in up,
        log_ends=told,
    )
    ends = [int(end.log_end_offset) for end in told.values()]
    ends += [each.high_watermark for each in contest.replicas if each.high_watermark is not None]
    kept = int(told[leader].log_end_offset) if leader in told else 0
    down = tuple(replica.node_id for replica in contest.replicas if not replica.is_up)
    return Outlook(contest.replicas, leader, max(0, max(ends, default=0) - kept), down)


def show_outlooks(outlooks: dict[TopicPartition, Outlook]) -> None:
    """A line for each replica, and one for what each partition would lose."""
    made = table("~Topic", "#Partition", "#Node", "State", "#Epoch", "#End", "#Committed", "~Note")
    rows = [(place, each) for place, one in outlooks.items() for each in one.replicas]
    shown = (
        (
            *cells,
            replica.node_id,
            "up" if replica.is_up else "down",
            None if replica.last_epoch in (None, -1) else replica.last_epoch,
            replica.end_offset,
            replica.high_watermark,
            _note(replica, leads=outlooks[place].leader == replica.node_id),
        )
        for cells, (place, replica) in zip(
            told_once([place for place, _ in rows]), rows, strict=True
        )
    )
    console = people()
    console.print(add_rows(made, shown))
    console.print()
    for place, outlook in outlooks.items():
        console.print(f"{place}: {_loss(outlook)}", soft_wrap=True)


def _note(replica: ReplicaLog, *, leads: bool) -> str:
    words = ["would lead"] if leads else []
    if replica.is_up and replica.end_offset is None:
        words.append("does not say what it has")
    if replica.end_offset == 0:
        words.append("empty")
    if replica.has_doubt:
        words.append("came back from a crash or with another directory")
    return ", ".join(words)


def _loss(outlook: Outlook) -> str:
    if outlook.leader == NO_LEADER:
        return "no replica is up, so nobody can be elected"
    text = f"node {outlook.leader} would lead"
    if outlook.known_lost:
        text += f"; {outlook.known_lost:,} records that others have or had would be lost"
    else:
        text += "; no replica that is up has more"
    if outlook.down:
        noun = "node" if len(outlook.down) == 1 else "nodes"
        text += f"; what only {noun} {listed(outlook.down)} (down) has would be lost"
    return text

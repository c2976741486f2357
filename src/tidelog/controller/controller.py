"""The controller: decides on the newest facts, committed or not, and remembers what it decided.

A second command may come before the first one's records are committed; deciding it on the
committed image would create a topic twice. So the controller keeps its own image, one step ahead
of the broker's: `appended` moves it when records enter the log.

One node of the cluster is the active controller. When it becomes so, it is made anew from all that
is in the log, and told to `begin`. Besides the image it has only soft state: the sessions of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tidelog.controller.configs import (
    ConfigChange,
    ConfigOutcome,
    decide_alter_cluster,
    decide_alter_topic,
    decide_defaults,
)
from tidelog.controller.decision import Decision
from tidelog.controller.elect_leaders import (
    ElectionOutcome,
    decide_elect_leaders,
    plan_leader_rebalance,
)
from tidelog.controller.elections import Election
from tidelog.controller.isr_changes import IsrAnswer, IsrChange, decide_alter_partitions
from tidelog.controller.nodes import (
    decide_allocate_for_node,
    decide_allocate_producer_ids,
    decide_cluster_identity,
)
from tidelog.controller.reassignments import (
    Reassignment,
    ReassignmentOutcome,
    decide_reassign,
    list_reassignments,
)
from tidelog.controller.registry import (
    Registration,
    RegistrationOutcome,
    decide_register,
    decide_start_alone,
    decide_unregister,
)
from tidelog.controller.sessions import (
    Heartbeat,
    HeartbeatOutcome,
    Sessions,
    decide_expiry,
    decide_heartbeat,
)
from tidelog.controller.topics import (
    TopicOutcome,
    TopicRules,
    TopicSpec,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from tidelog.metadata.image import Image, PartitionState
from tidelog.metadata.records import MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, NodeId, Offset, TopicId, TopicPartition
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """What the node's settings say about nodes and leaders. Without a `rebalance_interval_ms`
    leaders go back to their preferred replicas only when asked to."""

    session_timeout_ms: float = 9000
    rebalance_interval_ms: float | None = 300_000


class Controller:
    """Commands to decisions, on the newest image."""

    def __init__(
        self,
        image: Image,
        rules: TopicRules,
        random: Random,
        *,
        cluster: ClusterRules | None = None,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    ) -> None:
        self._image = image
        self._rules = rules
        self._random = random
        self._cluster = cluster or ClusterRules()
        self._safeguards = safeguards
        self._sessions = Sessions(self._cluster.session_timeout_ms)
        self._rebalance_ms = NEVER

    @property
    def image(self) -> Image:
        return self._image

    def appended(self, records: Sequence[MetadataRecord], offset: Offset = NO_OFFSET) -> None:
        """A decision's records are in the log, the last of them at `offset`."""
        self._image, delta = self._image.replay(records)
        self._sessions.appended(delta, offset)

    # --- time ---------------------------------------------------------------------------------

    def begin(self, now_ms: float, offset: Offset, *, former: NodeId | None = None) -> None:
        """This is the active controller from now on; `offset` is of the newest record, `former` the
        node that was the controller before, if that is known."""
        self._sessions.begin(self._image, now_ms=now_ms, offset=offset, former=former)
        interval_ms = self._cluster.rebalance_interval_ms
        self._rebalance_ms = NEVER if interval_ms is None else now_ms + interval_ms

    def next_deadline(self) -> float | None:
        """When `tick` has something to decide."""
        session_ms = self._sessions.next_deadline(self._image)
        deadline_ms = min(self._rebalance_ms, NEVER if session_ms is None else session_ms)
        return None if deadline_ms == NEVER else deadline_ms

    def tick(self, now_ms: float) -> Decision[list[NodeId]]:
        """Fence who was not heard of, let leaders go home. Gives the nodes fenced; if it can't be
        recorded, the next tick decides it again."""
        decision = decide_expiry(
            self._image, self._sessions, now_ms=now_ms, safeguards=self._safeguards
        )
        interval_ms = self._cluster.rebalance_interval_ms
        if interval_ms is None or now_ms < self._rebalance_ms:
            return decision
        self._rebalance_ms = now_ms + interval_ms
        after, _ = self._image.replay(decision.records)
        moved = plan_leader_rebalance(after, safeguards=self._safeguards)
        return Decision([*decision.records, *moved], decision.response)

    # --- nodes --------------------------------------------------------------------------------

    def sees(self, present: frozenset[NodeId] | None) -> None:
        """Who is there besides, or instead, of who was heard of; None if nothing tells that."""
        self._sessions.present = present

    def identify_cluster(self) -> Decision[str]:
        return decide_cluster_identity(self._image, self._random)

    def adopt_defaults(self, given: Mapping[str, str]) -> Decision[None]:
        """This node's topic defaults that concern elections become the cluster's."""
        return decide_defaults(self._image, given, safeguards=self._safeguards)

    def register(self, asked: Registration, *, now_ms: float) -> Decision[RegistrationOutcome]:
        known = self._image.nodes.get(asked.node_id)
        is_successor = known is not None and asked.previous_epoch == known.epoch
        decision = decide_register(
            self._image,
            asked,
            has_session=self._sessions.may_be_alive(
                asked.node_id, now_ms, is_successor=is_successor
            ),
            safeguards=self._safeguards,
        )
        if decision.records:
            self._sessions.registered(asked.node_id, now_ms)
        return decision

    def start_alone(self, asked: Registration) -> Decision[RegistrationOutcome]:
        return decide_start_alone(self._image, asked, safeguards=self._safeguards)

    def heartbeat(
        self, beat: Heartbeat, *, now_ms: float, is_certain: bool = True
    ) -> Decision[HeartbeatOutcome]:
        """`is_certain`: no other controller can be there."""
        return decide_heartbeat(
            self._image,
            self._sessions,
            beat,
            now_ms=now_ms,
            is_certain=is_certain,
            safeguards=self._safeguards,
        )

    def lost_touch(self, node_id: NodeId) -> None:
        """The connection of a node that was heard of is closed."""
        self._sessions.lost_touch(node_id)

    def unregister(self, node_id: NodeId) -> Decision[ErrorCode]:
        return decide_unregister(self._image, node_id, safeguards=self._safeguards)

    def allocate_producer_ids(self) -> Decision[range]:
        return decide_allocate_producer_ids(self._image)

    def allocate_producer_ids_for(self, node_id: NodeId, epoch: int) -> Decision[range | ErrorCode]:
        return decide_allocate_for_node(self._image, node_id, epoch, safeguards=self._safeguards)

    # --- partitions ---------------------------------------------------------------------------

    def alter_partitions(
        self, node_id: NodeId, epoch: int, changes: Sequence[IsrChange]
    ) -> Decision[IsrAnswer]:
        return decide_alter_partitions(
            self._image, node_id, epoch, changes, safeguards=self._safeguards
        )

    def elect_leaders(
        self, names: Sequence[TopicPartition] | None, election: Election
    ) -> Decision[list[ElectionOutcome]]:
        return decide_elect_leaders(self._image, names, election, safeguards=self._safeguards)

    def reassign(
        self, asked: Sequence[Reassignment], *, may_change_factor: bool = True
    ) -> Decision[list[ReassignmentOutcome]]:
        return decide_reassign(
            self._image, asked, may_change_factor=may_change_factor, safeguards=self._safeguards
        )

    def list_reassignments(self, names: Sequence[TopicPartition] | None) -> list[PartitionState]:
        return list_reassignments(self._image, names)

    # --- topics -------------------------------------------------------------------------------

    def create_topics(self, specs: Sequence[TopicSpec]) -> Decision[list[TopicOutcome]]:
        return decide_create_topics(self._image, specs, rules=self._rules, random=self._random)

    def create_partitions(
        self, name: str, *, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> Decision[TopicOutcome]:
        return decide_create_partitions(
            self._image, name, count=count, assignments=assignments, rules=self._rules
        )

    def alter_topic(
        self, name: str, changes: Sequence[ConfigChange], *, defaults: Mapping[str, str]
    ) -> Decision[ConfigOutcome]:
        return decide_alter_topic(
            self._image, name, changes, defaults=defaults, safeguards=self._safeguards
        )

    def alter_cluster(self, changes: Sequence[ConfigChange]) -> Decision[ConfigOutcome]:
        return decide_alter_cluster(self._image, changes)

    def delete_topics(
        self, targets: Sequence[tuple[str | None, TopicId]]
    ) -> Decision[list[TopicOutcome]]:
        return decide_delete_topics(self._image, targets)

    # --- for people and tests -----------------------------------------------------------------

    def validate(self) -> None:
        self._image.validate()

    def describe(self) -> dict[str, object]:
        return {
            "nodes": [
                {
                    "node_id": node.node_id,
                    "epoch": node.epoch,
                    "rack": node.rack,
                    "is_fenced": node.is_fenced,
                    "is_shutting_down": node.is_shutting_down,
                }
                for node in self._image.nodes.values()
            ],
            "sessions": self._sessions.describe(),
        }

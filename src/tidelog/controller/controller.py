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
from tidelog.controller.internal_topics import note_factors, plan_growth
from tidelog.controller.isr_changes import IsrAnswer, IsrChange, decide_alter_partitions
from tidelog.controller.log_ends import LogEndsByPartition
from tidelog.controller.nodes import (
    decide_allocate_for_node,
    decide_allocate_producer_ids,
    decide_cluster_identity,
)
from tidelog.controller.placement import Load, load_of
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
from tidelog.controller.resource_configs import decide_alter_group, decide_alter_node
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
from tidelog.controller.unclean import decide_waiting, leaderless, waiting
from tidelog.metadata.image import Image, PartitionState
from tidelog.metadata.records import MetadataRecord
from tidelog.metadata.states import Resource
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_LEADER,
    NO_OFFSET,
    NodeId,
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import NodeSettings

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
        self._grown_in: Image | None = None
        self._leaderless: dict[PartitionKey, None] = {
            state.key: None for state in leaderless(image, None)
        }

    @property
    def image(self) -> Image:
        return self._image

    def appended(self, records: Sequence[MetadataRecord], offset: Offset = NO_OFFSET) -> None:
        """A decision's records are in the log, the last of them at `offset`."""
        self._image, delta = self._image.replay(records)
        for key, change in delta.partitions.items():
            if change.after.leader == NO_LEADER:
                self._leaderless[key] = None
            else:
                self._leaderless.pop(key, None)
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

    def was_late(self, late_ms: float, now_ms: float) -> None:
        """The step that begins now comes so much later than it was asked for."""
        self._sessions.extend(late_ms, now_ms)

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
        self,
        names: Sequence[TopicPartition] | None,
        election: Election,
        log_ends: LogEndsByPartition | None = None,
    ) -> Decision[list[ElectionOutcome]]:
        return decide_elect_leaders(
            self._image, names, election, log_ends=log_ends, safeguards=self._safeguards
        )

    def leaderless(self, names: Sequence[TopicPartition] | None) -> list[PartitionState]:
        """The partitions that nobody leads: of those named, or of all."""
        return leaderless(self._image, names)

    def waiting_for_log_ends(self) -> list[PartitionState]:
        """Partitions whose topics allow an unclean election, and that need one: not before it is
        known what their replicas have."""
        return waiting(self._image, self._leaderless)

    def elect_waiting(self, log_ends: LogEndsByPartition) -> Decision[None]:
        return decide_waiting(self._image, self._leaderless, log_ends, safeguards=self._safeguards)

    def reassign(
        self, asked: Sequence[Reassignment], *, may_change_factor: bool = True
    ) -> Decision[list[ReassignmentOutcome]]:
        decision = decide_reassign(
            self._image, asked, may_change_factor=may_change_factor, safeguards=self._safeguards
        )
        factors = self._rules.internal_factors
        noted = note_factors(self._image, asked, decision.response, factors)
        return Decision([*decision.records, *noted], decision.response)

    def grow_internal_topics(self) -> Decision[list[ReassignmentOutcome]]:
        """Begin to add replicas that internal topics lack and that there are nodes for. Looks only
        once at each image: nodes have come since, or the last replicas are in sync."""
        if self._image is self._grown_in:
            return Decision([], [])
        self._grown_in = self._image
        moves = plan_growth(self._image, self._rules.internal_factors)
        return decide_reassign(self._image, moves, safeguards=self._safeguards)

    def list_reassignments(self, names: Sequence[TopicPartition] | None) -> list[PartitionState]:
        return list_reassignments(self._image, names)

    # --- topics -------------------------------------------------------------------------------

    def create_topics(
        self, specs: Sequence[TopicSpec], *, planned: int = 0
    ) -> Decision[list[TopicOutcome]]:
        """`planned` partitions count as if they were there."""
        return decide_create_topics(
            self._image, specs, rules=self._rules, random=self._random, planned=planned
        )

    def load(self) -> Load:
        """What every node has been given, for those who decide on many topics."""
        return load_of(self._image)

    def create_partitions(
        self,
        name: str,
        *,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        load: Load | None = None,
        planned: int = 0,
    ) -> Decision[TopicOutcome]:
        """The partitions are added to `load`, for who decides on several topics."""
        return decide_create_partitions(
            self._image,
            name,
            count=count,
            assignments=assignments,
            rules=self._rules,
            load=self.load() if load is None else load,
            planned=planned,
        )

    def alter_topic(
        self, name: str, changes: Sequence[ConfigChange], *, defaults: Mapping[str, str]
    ) -> Decision[ConfigOutcome]:
        return decide_alter_topic(
            self._image, name, changes, defaults=defaults, safeguards=self._safeguards
        )

    def alter_node(
        self, resource: Resource, changes: Sequence[ConfigChange]
    ) -> Decision[ConfigOutcome]:
        return decide_alter_node(self._image, resource, changes)

    def alter_group(
        self, resource: Resource, changes: Sequence[ConfigChange], *, node: NodeSettings
    ) -> Decision[ConfigOutcome]:
        return decide_alter_group(self._image, resource, changes, node=node)

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

"""The controller asks replicas how much of their logs they have, before an unclean election.

An `Inquiry` is about partitions that nobody leads. Each usable node with replicas of them is asked
with one ListOffsets, as Kafka's tools look into a log (replica id -2); a node that does not answer,
or has not heard yet that nobody leads, is asked again for a while. What the nodes said goes to
whoever wants it; a node that said nothing is not in it.

`Inquiries` holds those under way, and starts one by itself where topics allow unclean elections
and one is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidelog.broker.controller_link import RETRY_MS
from tidelog.broker.peers import Peers, Then
from tidelog.broker.state import BrokerState
from tidelog.controller.log_ends import LogEnd, LogEnds, LogEndsByPartition
from tidelog.metadata.image import Image, NodeState, PartitionState
from tidelog.model.clock import Now, earliest
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    BrokerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionKey,
    TopicPartition,
)
from tidelog.wire.messages.list_offsets import (
    DEBUGGING_REPLICA,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

PATIENCE_MS = 3_000.0
"""Until a usable node that does not say what it has is passed over."""

_ATTEMPT_MS = 1_500.0

Told = Callable[[Now, LogEndsByPartition], None]


@dataclass(slots=True)
class Inquiry:
    """`asked` has the registration under which each node was asked last; `open` are the nodes that
    have not answered, `silent` those that are to be asked again at `retry_ms`."""

    states: dict[TopicPartition, PartitionState]
    told: Told
    until_ms: float
    found: dict[PartitionKey, dict[NodeId, LogEnd]] = field(default_factory=dict)
    asked: dict[NodeId, BrokerEpoch] = field(default_factory=dict)
    open: dict[NodeId, None] = field(default_factory=dict)
    silent: dict[NodeId, None] = field(default_factory=dict)
    retry_ms: float = 0.0

    def nodes(self) -> list[NodeId]:
        """All with replicas of what it is about."""
        replicas = (node_id for state in self.states.values() for node_id in state.replicas)
        return list(dict.fromkeys(replicas))

    def log_ends(self) -> LogEndsByPartition:
        return {
            state.key: LogEnds(state.leader_epoch, self.found.get(state.key, {}))
            for state in self.states.values()
        }

    def request(self, node_id: NodeId) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for name, state in self.states.items():
            if node_id in state.replicas:
                topic = ListOffsetsTopic(name=name.topic, partitions=[])
                topics.setdefault(name.topic, topic).partitions.append(
                    ListOffsetsPartition(
                        partition_index=name.partition,
                        current_leader_epoch=state.leader_epoch,
                        timestamp=LATEST_TIMESTAMP,
                    )
                )
        return ListOffsetsRequest(replica_id=DEBUGGING_REPLICA, topics=list(topics.values()))

    def read(self, node_id: NodeId, answer: ListOffsetsResponse) -> bool:
        """Note what the node says; False if it must hear of the leader's end first."""
        is_complete = True
        for topic in answer.topics:
            for row in topic.partitions:
                state = self.states.get(TopicPartition(topic.name, row.partition_index))
                if row.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH:
                    is_complete = False
                elif row.error_code is ErrorCode.NONE and state is not None:
                    self.found.setdefault(state.key, {})[node_id] = LogEnd(
                        self.asked[node_id],
                        LeaderEpoch(row.leader_epoch),
                        Offset(row.offset),
                    )
        return is_complete


class Inquiries:
    """Of one node. Only an active controller has any."""

    def __init__(
        self,
        state: BrokerState,
        peers: Peers,
        *,
        endpoint_of: Callable[[NodeId], Endpoint | None],
    ) -> None:
        self._state = state
        self._peers = peers
        self._endpoint_of = endpoint_of
        self._under_way: list[Inquiry] = []
        self._is_electing = False
        self._looked_at: Image | None = None
        self._look_again_ms: float | None = None

    def ask(self, now: Now, states: Iterable[PartitionState], told: Told) -> None:
        """`told` is called once, with what there is to know."""
        inquiry = Inquiry(
            {state.name: state for state in states}, told, now.monotonic_ms + PATIENCE_MS
        )
        self._under_way.append(inquiry)
        self._ask_nodes(now, inquiry)

    def next_deadline(self) -> float | None:
        retries = (inquiry.retry_ms for inquiry in self._under_way if not inquiry.open)
        return earliest(min(retries, default=None), self._look_again_ms)

    def settle(self, now: Now) -> None:
        """The end of every step: ask again who is silent, and elect where a topic allows it."""
        for inquiry in list(self._under_way):
            if not inquiry.open and now.monotonic_ms >= inquiry.retry_ms:
                self._ask_nodes(now, inquiry)
        self._elect_waiting(now)

    # --- asking ---------------------------------------------------------------------------------

    def _ask_nodes(self, now: Now, inquiry: Inquiry) -> None:
        """All that are usable and have not answered under their present registration."""
        for node_id in inquiry.nodes():
            node = self._usable(node_id)
            endpoint = self._endpoint_of(node_id)
            has_answered = node is not None and inquiry.asked.get(node_id) == node.epoch
            if node is None or endpoint is None or (has_answered and node_id not in inquiry.silent):
                continue
            inquiry.asked[node_id] = node.epoch
            inquiry.open[node_id] = None
            self._peers.call(
                endpoint,
                "control",
                inquiry.request(node_id),
                deadline_ms=now.monotonic_ms + _ATTEMPT_MS,
                conversation=self._conversation(inquiry, node_id),
            )
        inquiry.silent = {}
        if not inquiry.open:
            self._end(now, inquiry)

    def _usable(self, node_id: NodeId) -> NodeState | None:
        controller = self._state.active_controller
        node = None if controller is None else controller.image.nodes.get(node_id)
        return node if node is not None and node.is_usable else None

    def _conversation(self, inquiry: Inquiry, node_id: NodeId) -> Then:
        def answered(now: Now, answer: ListOffsetsResponse) -> None:
            heard(now, is_complete=inquiry.read(node_id, answer))

        def heard(now: Now, *, is_complete: bool) -> None:
            del inquiry.open[node_id]
            if not is_complete:
                inquiry.silent[node_id] = None
                inquiry.retry_ms = now.monotonic_ms + RETRY_MS
            if inquiry.open:
                return
            if now.monotonic_ms >= inquiry.until_ms:
                self._end(now, inquiry)
            elif not inquiry.silent:
                self._ask_nodes(now, inquiry)  # who has come, or registered again, meanwhile

        return Then(answered, lambda now, reason: heard(now, is_complete=False))

    def _end(self, now: Now, inquiry: Inquiry) -> None:
        self._under_way.remove(inquiry)
        inquiry.told(now, inquiry.log_ends())

    # --- where a topic allows it ----------------------------------------------------------------

    def _elect_waiting(self, now: Now) -> None:
        controller = self._state.active_controller
        if controller is None:
            self._looked_at = self._look_again_ms = None
            return
        is_due = self._look_again_ms is not None and now.monotonic_ms >= self._look_again_ms
        if self._is_electing or (controller.image is self._looked_at and not is_due):
            return
        self._looked_at, self._look_again_ms = controller.image, None
        waiting = controller.waiting_for_log_ends()
        if waiting:
            self._is_electing = True
            self.ask(now, waiting, self._elect)

    def _elect(self, now: Now, log_ends: LogEndsByPartition) -> None:
        """What could not be recorded, or waits on for other reasons, is looked at again."""
        self._is_electing = False
        self._look_again_ms = now.monotonic_ms + RETRY_MS
        controller = self._state.active_controller
        if controller is not None:
            decision = controller.elect_waiting(log_ends)
            if decision.records:
                self._state.commit(decision, now)

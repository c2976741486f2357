"""Who leads a partition now, for a client that asked the wrong node (KIP-951)."""

from __future__ import annotations

from tidelog.broker.replicas import Replicas
from tidelog.metadata.image import NodeState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_NODE, NO_TOPIC_ID, LeaderEpoch, NodeId, TopicId

WRONG_LEADER = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
"""Errors of clients that believe in another leader."""


def leader_now(
    replicas: Replicas, topic: str, partition: int, *, topic_id: TopicId = NO_TOPIC_ID
) -> tuple[NodeId, LeaderEpoch]:
    """Its id and epoch, as far as this node knows."""
    state = replicas.state_of(topic, partition, topic_id=topic_id)
    return (NO_NODE, NO_EPOCH) if state is None else (state.leader, state.leader_epoch)


def endpoints_of(replicas: Replicas, leaders: list[int]) -> list[NodeState]:
    """Where to find them, each once."""
    found = (replicas.image.nodes.get(NodeId(node)) for node in dict.fromkeys(leaders))
    return [node for node in found if node is not None]

"""I11: what always holds of a partition's sets, in every image, committed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidelog.metadata.holdings import Holdings, holdings_of
from tidelog.metadata.states import NodeState, PartitionState, TopicState
from tidelog.model.ids import NO_LEADER, NodeId, PartitionKey


def check_partitions(
    topic: TopicState,
    nodes: Mapping[NodeId, NodeState],
    min_isr: Callable[[PartitionState], int],
) -> None:
    for index, state in enumerate(topic.partitions):
        assert state.key == PartitionKey(topic.topic_id, index), state
        _check_sets(state)
        for node_id in state.isr:
            assert node_id in nodes, f"{state.name}: {node_id} is in the ISR and not registered"
            assert not nodes[node_id].is_fenced, f"{state.name}: {node_id} is fenced, in the ISR"
        if state.elr:
            assert len(state.isr) < min_isr(state), f"{state.name}: an ELR beside a full ISR"


def check_holdings(holdings: Holdings, states: Iterable[PartitionState]) -> None:
    """The index says what the partitions say."""
    expected = holdings_of(states)
    assert holdings.keys() == expected.keys(), "the index has other nodes than the partitions"
    for node_id, holding in expected.items():
        assert holdings[node_id].facts() == holding.facts(), f"the index is wrong about {node_id}"


def check_topic_is_held(topic: TopicState, holdings: Holdings) -> None:
    for state in topic.partitions:
        for node_id in state.replicas:
            is_held = node_id in holdings and state.name in holdings[node_id].kept
            assert is_held, f"{state.name} is missing in the index of {node_id}"


def _check_sets(state: PartitionState) -> None:
    assert state.replicas, f"{state.name} has no replica"
    parts = {
        "isr": state.isr,
        "elr": state.elr,
        "last_known_elr": state.last_known_elr,
        "adding": state.adding_replicas,
        "removing": state.removing_replicas,
    }
    assert len(set(state.replicas)) == len(state.replicas), f"{state.name}: a replica twice"
    for name, part in parts.items():
        assert set(part) <= set(state.replicas), f"{state.name}: {name} {part} not in replicas"
        assert len(set(part)) == len(part), f"{state.name}: twice in {name} {part}"
    assert _apart(state.isr, state.elr), f"{state.name}: both in ISR and ELR"
    assert _apart(state.isr, state.last_known_elr), f"{state.name}: in ISR and last known ELR"
    assert _apart(state.elr, state.last_known_elr), f"{state.name}: in ELR and last known ELR"
    assert _apart(state.adding_replicas, state.removing_replicas), f"{state.name}: comes and goes"
    assert state.leader == NO_LEADER or state.leader in state.isr, f"{state.name}: leads unsynced"


def _apart(first: Sequence[NodeId], second: Sequence[NodeId]) -> bool:
    return not set(first) & set(second)

"""Snapshots of the metadata that take many turns: taken by one node, loaded by another. Images are
small here, and a slice is three records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.support.neighbours import Neighbours

from tidelog.broker.node import Node
from tidelog.broker.quorum_journal import QuorumJournal
from tidelog.metadata import snapshot
from tidelog.metadata.snapshot import SnapshotDecoding, SnapshotEncoding
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.requests import encode_request

VOTERS = "1@127.0.0.1:9001"


@pytest.fixture
def neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Neighbours:
    monkeypatch.setattr(snapshot, "RECORDS_PER_SLICE", 3)
    return Neighbours(tmp_path)


def start(neighbours: Neighbours, number: int) -> Node:
    return neighbours.start(
        number,
        controller_quorum_voters=VOTERS,
        metadata_log_max_records_between_snapshots="20",
    )


def create(neighbours: Neighbours, *names: str) -> None:
    for name in names:
        topic = CreatableTopic(name=name, num_partitions=8, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic])
        neighbours.ask(1, encode_request(request, 7, correlation_id=1, client_id="test"))
        neighbours.run_until(partial(_has, neighbours, name), name)


def _has(neighbours: Neighbours, name: str) -> bool:
    return name in neighbours.image(1).topics


def journal_of(node: Node) -> QuorumJournal:
    journal = node.state.journal
    assert isinstance(journal, QuorumJournal)
    return journal


def start_of(node: Node) -> int:
    return journal_of(node).log.log_start_offset


def counted(
    kind: type[SnapshotEncoding] | type[SnapshotDecoding],
    monkeypatch: pytest.MonkeyPatch,
    during: Callable[[], None] = lambda: None,
) -> list[int]:
    turns: list[int] = []
    turn = kind.turn

    def noted(self: SnapshotEncoding | SnapshotDecoding) -> bool:
        turns.append(1)
        is_last: bool = turn(self)  # type: ignore[arg-type]
        if not is_last:
            during()
        return is_last

    monkeypatch.setattr(kind, "turn", noted)
    return turns


def test_a_snapshot_is_encoded_in_slices_and_has_no_record_that_came_meanwhile(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start(neighbours, 1)
    neighbours.run_until(lambda: node.is_serving, "a start")
    turns = counted(SnapshotEncoding, monkeypatch)
    create(neighbours, "a", "b", "c")
    neighbours.run_until(lambda: len(turns) >= 2, "the second slice")
    assert start_of(node) == 0
    create(neighbours, "late")
    neighbours.run_until(lambda: start_of(node) > 0, "a snapshot")
    assert len(turns) > 5
    neighbours.kill(1)
    again = start(neighbours, 1)
    neighbours.run_until(lambda: again.is_serving, "another start")
    assert sorted(again.state.image.topics) == ["a", "b", "c", "late"]
    again.state.image.validate(whole=True)


def test_a_node_far_behind_loads_a_snapshot_in_slices_and_is_told_nothing_before_its_end(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start(neighbours, 1)
    neighbours.run_until(lambda: node.is_serving, "a start")
    create(neighbours, "a", "b", "c")
    neighbours.run_until(lambda: start_of(node) > 0, "a snapshot")
    seen: list[tuple[int, int, bool]] = []

    def look() -> None:
        other = neighbours.nodes.get(2)
        if other is not None:
            journal = journal_of(other)
            told = journal.take_committed()
            is_leading = journal.is_active or journal.office_until_ms() is not None
            seen.append((len(told), len(other.state.image.topics), is_leading))

    turns = counted(SnapshotDecoding, monkeypatch, look)
    behind = start(neighbours, 2)
    neighbours.run_until(lambda: len(turns) >= 3, "the third slice")
    create(neighbours, "late")
    neighbours.run_until(lambda: behind.is_serving, "the other node")
    neighbours.run_until(lambda: behind.state.image == node.state.image, "the same image")
    assert len(turns) > 5
    assert len(seen) > 3
    assert set(seen) == {(0, 0, False)}
    assert len(behind.state.image.topics) == 4
    behind.state.image.validate(whole=True)

"""Snapshots of images, at once and in slices. What a slice is is counted, not timed."""

from __future__ import annotations

import pytest
from tests.support.call_counts import calls_of
from tests.support.cluster_model import ClusterModel

from tidelog.bench.images import image_of
from tidelog.metadata import snapshot
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import Image
from tidelog.metadata.snapshot import (
    SnapshotDecoding,
    SnapshotEncoding,
    decode_image,
    difference,
    encode_image,
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_a_snapshot_in_slices_is_the_snapshot_at_once(
    seed: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ClusterModel(seed)
    model.run(40)
    expected = encode_image(model.image)
    monkeypatch.setattr(snapshot, "RECORDS_PER_SLICE", size)
    encoding = SnapshotEncoding(model.image)
    turns = 1
    while not encoding.turn():
        turns += 1
    assert encoding.data == expected
    assert turns == len(model.image.to_records()) // size + 1
    decoding = SnapshotDecoding(expected)
    while not decoding.turn():
        pass
    assert decoding.image == model.image == decode_image(expected)
    decoding.image.validate(whole=True)


def test_no_slice_costs_more_than_another_however_large_the_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot, "RECORDS_PER_SLICE", 100)
    most: list[tuple[int, int]] = []
    for topics in (100, 1_000):
        image = image_of(nodes=10, topics=topics, partitions=2)
        encoding = SnapshotEncoding(image)
        encoded = [calls_of(encoding.turn) for _ in range(3 * topics // 100)]
        while not encoding.turn():
            pass
        decoding = SnapshotDecoding(encoding.data)
        decoded = [calls_of(decoding.turn) for _ in range(3 * topics // 100)]
        most.append((max(encoded), max(decoded)))
    (few, few_decoded), (many, many_decoded) = most
    assert many <= 1.1 * few
    assert many_decoded <= 1.5 * few_decoded


@pytest.mark.parametrize("seed", range(6))
def test_the_difference_is_what_replaying_the_snapshot_says(seed: int) -> None:
    model = ClusterModel(seed)
    model.run(30)
    before = model.image
    model.run(30)
    after = model.image
    _, replayed = Image().replay(after.to_records())
    replayed.created = [topic_id for topic_id in replayed.created if topic_id not in before.names]
    replayed.configured = list(after.names)
    replayed.removed = {
        topic_id: name for topic_id, name in before.names.items() if topic_id not in after.names
    }
    found = difference(before, after)
    assert found == replayed
    assert list(found.partitions) == list(replayed.partitions)
    assert list(found.nodes) == list(replayed.nodes)
    assert isinstance(found, Delta)

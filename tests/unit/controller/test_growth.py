"""What a node's coming and going costs depends on what it keeps, not on the size of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.support.call_counts import calls_of

from tidelog.bench.images import image_of
from tidelog.controller.node_changes import (
    all_lost,
    plan_departure,
    plan_fencing,
    plan_shutdown,
    plan_unfencing,
)
from tidelog.controller.placement import load_of
from tidelog.controller.registry import decide_unregister
from tidelog.controller.sessions import Heartbeat, Sessions, decide_heartbeat
from tidelog.metadata.image import Image
from tidelog.metadata.records import MetadataRecord
from tidelog.model.ids import NodeId, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS

NODE = NodeId(3)
Plan = Callable[[Image], Any]


def _departure(image: Image) -> list[MetadataRecord]:
    return list(plan_departure(image, NODE, losses=all_lost, safeguards=ALL_SAFEGUARDS))


PLANS: dict[str, Plan] = {
    "fencing": lambda image: plan_fencing(image, NODE, safeguards=ALL_SAFEGUARDS),
    "shutdown": lambda image: plan_shutdown(image, NODE, safeguards=ALL_SAFEGUARDS),
    "departure": _departure,
}

AFTER_FENCING: dict[str, Plan] = {
    "unfencing": lambda image: plan_unfencing(image, NODE, safeguards=ALL_SAFEGUARDS),
    "unregistering": lambda image: decide_unregister(image, NODE),
}


@pytest.fixture(scope="module")
def images() -> tuple[Image, Image]:
    """The node keeps 300 partitions of both: of 1,000 and of 10,000."""
    small = image_of(nodes=10, topics=100, partitions=10)
    return small, image_of(nodes=100, topics=1_000, partitions=10)


def leaving(image: Image) -> Image:
    after, _ = image.replay(plan_shutdown(image, NODE, safeguards=ALL_SAFEGUARDS))
    return after


def fenced(image: Image) -> Image:
    after, _ = image.replay(plan_fencing(image, NODE, safeguards=ALL_SAFEGUARDS))
    return after


@pytest.mark.parametrize("what", PLANS)
def test_a_plan_looks_at_the_nodes_own_partitions_only(
    images: tuple[Image, Image], what: str
) -> None:
    few, many = (calls_of(partial(PLANS[what], image)) for image in images)
    assert [len(PLANS[what](image)) for image in images] in ([300, 300], [301, 301])
    assert many <= 1.05 * few


@pytest.mark.parametrize("what", AFTER_FENCING)
def test_a_fenced_nodes_partitions_are_the_only_ones_that_its_fate_concerns(
    images: tuple[Image, Image], what: str
) -> None:
    few, many = (calls_of(partial(AFTER_FENCING[what], fenced(image))) for image in images)
    assert many <= 1.05 * few + 200


def test_a_heartbeat_of_a_leaving_node_costs_no_more_than_the_nodes_that_must_have_seen_it(
    images: tuple[Image, Image],
) -> None:
    for image in images:
        after = leaving(image)
        sessions = Sessions(9000)
        sessions.begin(after, now_ms=0, offset=Offset(7))
        beat = Heartbeat(NODE, after.nodes[NODE].epoch, metadata_offset=7, wants_shutdown=True)
        calls = calls_of(partial(decide_heartbeat, after, sessions, beat, now_ms=1))
        assert not after.leads_any(NODE)
        assert calls < 100 + 5 * len(after.nodes)


def test_the_load_of_all_nodes_is_known_without_looking_at_partitions(
    images: tuple[Image, Image],
) -> None:
    _, large = images
    assert calls_of(lambda: load_of(large)) < 100
    load = load_of(large)
    assert [load.replicas[NodeId(n)] for n in range(100)] == [300] * 100
    assert [load.leaders[NodeId(n)] for n in range(100)] == [100] * 100

"""FindCoordinator: who looks after a group. The first one asked makes the topic for all offsets."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import World
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

API_KEY = 10


def build(group: str) -> FindCoordinatorRequest:
    """For every version: the single key, and the list that came with version 4."""
    return FindCoordinatorRequest(key=group, coordinator_keys=[group])


def classify(response: FindCoordinatorResponse) -> tuple[int, ErrorCode]:
    """Node and error, wherever the version has put them."""
    if response.coordinators:
        found = response.coordinators[0]
        return found.node_id, found.error_code
    return response.node_id, response.error_code


def predict(world: World, life: int) -> tuple[ErrorCode, ...]:
    """The first answer needs a topic, and so a disk."""
    return world.coordinator_excuses(life, may_load=False)

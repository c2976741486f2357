"""Which function handles which API. `versions.py` says at which versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.broker.apis import (
    api_versions,
    create_topics,
    delete_topics,
    describe_cluster,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from tidelog.broker.apis.versions import SERVED
from tidelog.broker.state import BrokerState, Call

Handler = Callable[[BrokerState, Call, Any], Any]

HANDLERS: dict[int, Handler] = {
    0: produce.handle,
    1: fetch.handle,
    2: list_offsets.handle,
    3: metadata.handle,
    10: find_coordinator.handle,
    18: api_versions.handle,
    19: create_topics.handle,
    20: delete_topics.handle,
    22: init_producer_id.handle,
    23: offset_for_leader_epoch.handle,
    60: describe_cluster.handle,
}

assert HANDLERS.keys() == SERVED.keys()

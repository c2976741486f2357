"""Which function handles which API. `versions.py` says at which versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.broker.apis import (
    alter_configs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from tidelog.broker.apis.versions import SERVED
from tidelog.broker.state import BrokerState, Call

Handler = Callable[[BrokerState, Call, Any], Any]

HANDLERS: dict[int, Handler] = {
    0: produce.handle,
    1: fetch.handle,
    2: list_offsets.handle,
    3: metadata.handle,
    8: offset_commit.handle,
    9: offset_fetch.handle,
    10: find_coordinator.handle,
    11: join_group.handle,
    12: heartbeat.handle,
    13: leave_group.handle,
    14: sync_group.handle,
    15: describe_groups.handle,
    16: list_groups.handle,
    18: api_versions.handle,
    19: create_topics.handle,
    20: delete_topics.handle,
    21: delete_records.handle,
    22: init_producer_id.handle,
    23: offset_for_leader_epoch.handle,
    32: describe_configs.handle,
    33: alter_configs.handle,
    35: describe_log_dirs.handle,
    37: create_partitions.handle,
    42: delete_groups.handle,
    44: incremental_alter_configs.handle,
    47: offset_delete.handle,
    60: describe_cluster.handle,
    61: describe_producers.handle,
    68: consumer_group_heartbeat.handle,
    69: consumer_group_describe.handle,
    75: describe_topic_partitions.handle,
}

assert HANDLERS.keys() == SERVED.keys()

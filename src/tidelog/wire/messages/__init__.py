"""Every API we can read and write, one module each; `API_BY_KEY` is the list of them.

The ranges here are what the codec knows. What a node serves is the broker's decision, and what a
client may hear of it ApiVersions' business. A module is imported when its API is first met: forty
dataclasses take a while to make, and a node should be ready sooner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Api:
    """One Kafka API: its key, and the versions the codec knows.

    `first_flexible` is None for an API that Kafka never made flexible.
    """

    key: int
    name: str
    module: str
    min_version: int
    max_version: int
    first_flexible: int | None

    @cached_property
    def request_class(self) -> type[Any]:
        return self._class("Request")

    @cached_property
    def response_class(self) -> type[Any]:
        return self._class("Response")

    def _class(self, suffix: str) -> type[Any]:
        cls: type[Any] = getattr(import_module(f"{__name__}.{self.module}"), self.name + suffix)
        return cls

    def has_version(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        return self.first_flexible is not None and version >= self.first_flexible


APIS = (
    Api(0, "Produce", "produce", 0, 13, 9),
    Api(1, "Fetch", "fetch", 4, 18, 12),
    Api(2, "ListOffsets", "list_offsets", 1, 11, 6),
    Api(3, "Metadata", "metadata", 0, 13, 9),
    Api(8, "OffsetCommit", "offset_commit", 2, 10, 8),
    Api(9, "OffsetFetch", "offset_fetch", 1, 10, 6),
    Api(10, "FindCoordinator", "find_coordinator", 0, 6, 3),
    Api(11, "JoinGroup", "join_group", 0, 9, 6),
    Api(12, "Heartbeat", "heartbeat", 0, 4, 4),
    Api(13, "LeaveGroup", "leave_group", 0, 5, 4),
    Api(14, "SyncGroup", "sync_group", 0, 5, 4),
    Api(15, "DescribeGroups", "describe_groups", 0, 6, 5),
    Api(16, "ListGroups", "list_groups", 0, 5, 3),
    Api(18, "ApiVersions", "api_versions", 0, 4, 3),
    Api(19, "CreateTopics", "create_topics", 2, 7, 5),
    Api(20, "DeleteTopics", "delete_topics", 1, 6, 4),
    Api(21, "DeleteRecords", "delete_records", 0, 2, 2),
    Api(22, "InitProducerId", "init_producer_id", 0, 6, 2),
    Api(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch", 2, 4, 4),
    Api(29, "DescribeAcls", "describe_acls", 1, 3, 2),
    Api(30, "CreateAcls", "create_acls", 1, 3, 2),
    Api(31, "DeleteAcls", "delete_acls", 1, 3, 2),
    Api(32, "DescribeConfigs", "describe_configs", 1, 4, 4),
    Api(33, "AlterConfigs", "alter_configs", 0, 2, 2),
    Api(34, "AlterReplicaLogDirs", "alter_replica_log_dirs", 1, 2, 2),
    Api(35, "DescribeLogDirs", "describe_log_dirs", 1, 5, 2),
    Api(37, "CreatePartitions", "create_partitions", 0, 3, 2),
    Api(42, "DeleteGroups", "delete_groups", 0, 2, 2),
    Api(43, "ElectLeaders", "elect_leaders", 0, 2, 2),
    Api(44, "IncrementalAlterConfigs", "incremental_alter_configs", 0, 1, 1),
    Api(45, "AlterPartitionReassignments", "alter_partition_reassignments", 0, 1, 0),
    Api(46, "ListPartitionReassignments", "list_partition_reassignments", 0, 0, 0),
    Api(47, "OffsetDelete", "offset_delete", 0, 0, None),
    Api(52, "Vote", "vote", 0, 2, 0),
    Api(53, "BeginQuorumEpoch", "begin_quorum_epoch", 0, 1, 1),
    Api(54, "EndQuorumEpoch", "end_quorum_epoch", 0, 1, 1),
    Api(55, "DescribeQuorum", "describe_quorum", 0, 2, 0),
    Api(56, "AlterPartition", "alter_partition", 2, 3, 2),
    Api(57, "UpdateFeatures", "update_features", 0, 2, 0),
    Api(59, "FetchSnapshot", "fetch_snapshot", 0, 1, 0),
    Api(60, "DescribeCluster", "describe_cluster", 0, 2, 0),
    Api(61, "DescribeProducers", "describe_producers", 0, 0, 0),
    Api(62, "BrokerRegistration", "broker_registration", 0, 4, 0),
    Api(63, "BrokerHeartbeat", "broker_heartbeat", 0, 2, 0),
    Api(64, "UnregisterBroker", "unregister_broker", 0, 0, 0),
    Api(67, "AllocateProducerIds", "allocate_producer_ids", 0, 0, 0),
    Api(68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat", 0, 1, 0),
    Api(69, "ConsumerGroupDescribe", "consumer_group_describe", 0, 1, 0),
    Api(74, "ListConfigResources", "list_config_resources", 0, 1, 0),
    Api(75, "DescribeTopicPartitions", "describe_topic_partitions", 0, 0, 0),
    Api(80, "AddRaftVoter", "add_raft_voter", 0, 1, 0),
    Api(81, "RemoveRaftVoter", "remove_raft_voter", 0, 0, 0),
)

API_BY_KEY: dict[int, Api] = {api.key: api for api in APIS}

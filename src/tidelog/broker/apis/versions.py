"""Which APIs the node serves, at which versions.

The ranges are those of Apache Kafka 4.3 for the APIs it shares with us: clients infer a broker's
release from them (kafka-python does), so they must fit together, and with the `metadata.version` in
`broker/features.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServedApi:
    """A row: versions below `first_handled` are advertised, but their requests refused. What only
    nodes say to one another is not advertised to clients, as Kafka's brokers don't."""

    key: int
    name: str
    min_version: int
    max_version: int
    first_handled: int = 0
    is_advertised: bool = True

    def has_version(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


_ROWS = (
    ServedApi(0, "Produce", 0, 13, first_handled=3),
    ServedApi(1, "Fetch", 4, 18),
    ServedApi(2, "ListOffsets", 1, 11),
    ServedApi(3, "Metadata", 0, 13),
    ServedApi(8, "OffsetCommit", 2, 10),
    ServedApi(9, "OffsetFetch", 1, 10),
    ServedApi(10, "FindCoordinator", 0, 6),
    ServedApi(11, "JoinGroup", 0, 9),
    ServedApi(12, "Heartbeat", 0, 4),
    ServedApi(13, "LeaveGroup", 0, 5),
    ServedApi(14, "SyncGroup", 0, 5),
    ServedApi(15, "DescribeGroups", 0, 6),
    ServedApi(16, "ListGroups", 0, 5),
    ServedApi(18, "ApiVersions", 0, 4),
    ServedApi(19, "CreateTopics", 2, 7),
    ServedApi(20, "DeleteTopics", 1, 6),
    ServedApi(21, "DeleteRecords", 0, 2),
    ServedApi(22, "InitProducerId", 0, 5),
    ServedApi(23, "OffsetForLeaderEpoch", 2, 4),
    ServedApi(29, "DescribeAcls", 1, 3),
    ServedApi(30, "CreateAcls", 1, 3),
    ServedApi(31, "DeleteAcls", 1, 3),
    ServedApi(32, "DescribeConfigs", 1, 4),
    ServedApi(33, "AlterConfigs", 0, 2),
    ServedApi(34, "AlterReplicaLogDirs", 1, 2),
    ServedApi(35, "DescribeLogDirs", 1, 5),
    ServedApi(37, "CreatePartitions", 0, 3),
    ServedApi(42, "DeleteGroups", 0, 2),
    ServedApi(43, "ElectLeaders", 0, 2),
    ServedApi(44, "IncrementalAlterConfigs", 0, 1),
    ServedApi(45, "AlterPartitionReassignments", 0, 1),
    ServedApi(46, "ListPartitionReassignments", 0, 0),
    ServedApi(47, "OffsetDelete", 0, 0),
    ServedApi(52, "Vote", 0, 2, is_advertised=False),
    ServedApi(53, "BeginQuorumEpoch", 0, 1, is_advertised=False),
    ServedApi(54, "EndQuorumEpoch", 0, 1, is_advertised=False),
    ServedApi(55, "DescribeQuorum", 0, 2),
    ServedApi(56, "AlterPartition", 2, 3, is_advertised=False),
    ServedApi(57, "UpdateFeatures", 0, 2),
    ServedApi(59, "FetchSnapshot", 0, 1, is_advertised=False),
    ServedApi(60, "DescribeCluster", 0, 2),
    ServedApi(61, "DescribeProducers", 0, 0),
    ServedApi(62, "BrokerRegistration", 0, 4, is_advertised=False),
    ServedApi(63, "BrokerHeartbeat", 0, 2, is_advertised=False),
    ServedApi(64, "UnregisterBroker", 0, 0),
    ServedApi(67, "AllocateProducerIds", 0, 0, is_advertised=False),
    ServedApi(68, "ConsumerGroupHeartbeat", 0, 1),
    ServedApi(69, "ConsumerGroupDescribe", 0, 1),
    ServedApi(74, "ListConfigResources", 0, 1),
    ServedApi(75, "DescribeTopicPartitions", 0, 0),
    ServedApi(80, "AddRaftVoter", 0, 1),
    ServedApi(81, "RemoveRaftVoter", 0, 0),
)

SERVED: dict[int, ServedApi] = {row.key: row for row in _ROWS}

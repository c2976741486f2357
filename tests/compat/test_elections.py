"""Leaders and replicas, as administrators' clients ask for them."""

from __future__ import annotations

from contextlib import closing

import kafka
import kafka.admin
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.compat.clients import confluent
from tests.compat.clients.message import PATIENCE_S

from tidelog.model.errors import ErrorCode


def test_confluent_kafka_is_told_that_the_preferred_leader_leads(
    bootstrap: str, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **confluent.QUIET})
    asked = [TopicPartition(topic, 0), TopicPartition(topic, 999)]
    answered = admin.elect_leaders(ElectionType.PREFERRED, asked).result(PATIENCE_S)
    codes = {partition.partition: error.code() for partition, error in answered.items()}
    assert codes == {
        0: KafkaError.ELECTION_NOT_NEEDED,
        999: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def test_kafka_python_moves_partitions(bootstrap: str, topic: str) -> None:
    where = kafka.TopicPartition(topic, 0)
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        described = admin.describe_topics([topic])[0]["partitions"]
        replicas = next(p["replica_nodes"] for p in described if p["partition_index"] == 0)
        assert admin.alter_partition_reassignments({where: list(replicas)}) == {where: None}
        assert admin.list_partition_reassignments() == {}
        refused = admin.alter_partition_reassignments({where: [99]})
        assert refused[where].errno == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        refused = admin.alter_partition_reassignments({where: None})
        assert refused[where].errno == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

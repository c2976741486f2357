"""Who waits for many partitions is asked once, however many of them move in the same moment."""

from __future__ import annotations

from pathlib import Path

from tests.support.call_counts import python_calls_of
from tests.support.node_driver import NodeDriver, batch_of

from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

FETCH, PRODUCE = 12, 9
TOPIC = "orders"


def waiting_fetch(partitions: int) -> FetchRequest:
    """For more than will come."""
    asked = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(partitions)
    ]
    return FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1 << 20,
        max_bytes=1 << 24,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=asked)],
    )


def produce_to_all(partitions: int) -> ProduceRequest:
    data = [
        PartitionProduceData(index=index, records=batch_of(b"value")) for index in range(partitions)
    ]
    return ProduceRequest(
        acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]
    )


def calls_when_all_move(data_dir: Path, partitions: int) -> int:
    driver = NodeDriver(data_dir, None, flush_policy="os")
    driver.create_topic(TOPIC, partitions=partitions)
    request = produce_to_all(partitions)
    driver.request(request, version=PRODUCE)
    driver.submit(waiting_fetch(partitions), version=FETCH, connection=driver.connect())
    return python_calls_of(lambda: driver.request(request, version=PRODUCE))[0]


def test_a_fetch_of_many_partitions_is_collected_once_when_all_of_them_move(
    tmp_path: Path,
) -> None:
    few, many = (calls_when_all_move(tmp_path / str(count), count) for count in (2, 16))
    assert many < 8 * few

"""Where a batch query begins and ends, and what its tasks read: a real node, no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.spark.topics import (
    FIRST_MS,
    make_topic,
    numbered,
    options,
    planned,
    produce,
    rows_of,
)
from tests.support.eventually import eventually
from tests.support.node_process import RunningNode, StartNode

from tidelog.client import Admin, Producer
from tidelog.model.ids import TopicPartition
from tidelog.spark.cluster import Cluster
from tidelog.spark.connection import BrokerConnection
from tidelog.spark.errors import DataLoss, NoBroker, OptionError, UnknownTopic
from tidelog.spark.options import SourceOptions
from tidelog.spark.reader import read_split

pytestmark = pytest.mark.xdist_group("spark")

Ranges = list[tuple[int, int, int]]


def fill(node: RunningNode, topic: str) -> str:
    """A topic of two partitions, with ten records and with five."""
    make_topic(node, topic, partitions=2)
    produce(node, topic, numbered(10))
    produce(node, topic, numbered(5), partition=1)
    return topic


@pytest.fixture(scope="module")
def ten_and_five(spark_node: RunningNode) -> str:
    """For those who only read it."""
    return fill(spark_node, "ten-and-five")


def ranges(node: RunningNode, topic: str, **more: str) -> Ranges:
    splits = planned(node, options(node, topic, **more))
    return [(each.partition, each.start, each.end) for each in splits]


def by_partition(topic: str, zero: int, one: int) -> str:
    return json.dumps({topic: {"0": zero, "1": one}})


def test_without_a_word_a_batch_reads_everything(
    spark_node: RunningNode, ten_and_five: str
) -> None:
    assert ranges(spark_node, ten_and_five) == [(0, 0, 10), (1, 0, 5)]


def test_offsets_bound_each_partition(spark_node: RunningNode, ten_and_five: str) -> None:
    found = ranges(
        spark_node,
        ten_and_five,
        startingOffsets=by_partition(ten_and_five, 3, -2),
        endingOffsets=by_partition(ten_and_five, 8, -1),
    )
    assert found == [(0, 3, 8), (1, 0, 5)]


def test_one_time_bounds_all_partitions(spark_node: RunningNode, ten_and_five: str) -> None:
    found = ranges(
        spark_node,
        ten_and_five,
        startingTimestamp=str(FIRST_MS + 2),
        endingTimestamp=str(FIRST_MS + 7),
    )
    # Partition 1 has nothing from the ending time on, so it is read to its end.
    assert found == [(0, 2, 7), (1, 2, 5)]


def test_times_bound_each_partition(spark_node: RunningNode, ten_and_five: str) -> None:
    found = ranges(
        spark_node,
        ten_and_five,
        startingOffsetsByTimestamp=by_partition(ten_and_five, FIRST_MS + 9, FIRST_MS),
        endingOffsetsByTimestamp=by_partition(ten_and_five, FIRST_MS + 99, FIRST_MS + 4),
    )
    assert found == [(0, 9, 10), (1, 0, 4)]


def test_a_start_after_the_last_record_is_an_error_unless_latest_will_do(
    spark_node: RunningNode, ten_and_five: str
) -> None:
    late = str(FIRST_MS + 7)
    with pytest.raises(OptionError, match=rf"{ten_and_five}-1 has no record from {late} on"):
        ranges(spark_node, ten_and_five, startingTimestamp=late)
    found = ranges(
        spark_node,
        ten_and_five,
        startingTimestamp=late,
        startingOffsetsByTimestampStrategy="latest",
    )
    assert found == [(0, 7, 10)]


def test_partitions_are_assigned_or_found_by_a_pattern(
    spark_node: RunningNode, ten_and_five: str
) -> None:
    where = {"kafka.bootstrap.servers": spark_node.bootstrap}
    one = planned(spark_node, {**where, "assign": json.dumps({ten_and_five: [1]})})
    assert [(each.topic, each.partition) for each in one] == [(ten_and_five, 1)]
    pattern = planned(spark_node, {**where, "subscribePattern": ten_and_five[:-1] + "."})
    assert [each.partition for each in pattern] == [0, 1]
    assert planned(spark_node, {**where, "subscribePattern": ten_and_five[:-1]}) == []


def test_splits_follow_min_partitions_and_max_records(
    spark_node: RunningNode, ten_and_five: str
) -> None:
    more = ranges(spark_node, ten_and_five, minPartitions="4")
    assert more == [(0, 0, 4), (0, 4, 7), (0, 7, 10), (1, 0, 5)]
    most = ranges(spark_node, ten_and_five, maxRecordsPerPartition="4")
    assert [end - start for _, start, end in most] == [4, 3, 3, 3, 2]
    given = options(spark_node, ten_and_five, minPartitions="7")
    rows = rows_of(given, planned(spark_node, given))
    assert [row["value"] for row in rows] == [*numbered(10), *numbered(5)]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"subscribe": "nothing-here"}, UnknownTopic, "there is no topic 'nothing-here' at"),
        ({"startingOffsets": '{"T": {"0": 1}}'}, OptionError, "says nothing about partition T-1"),
        (
            {"startingOffsets": '{"T": {"0": 1, "1": 1, "2": 1}}'},
            OptionError,
            "names partition T-2, which is not subscribed",
        ),
        ({"assign": '{"T": [5]}'}, UnknownTopic, "'T' has no partition 5: it has 2"),
        ({"endingOffsets": '{"T": {"0": 12, "1": 5}}'}, DataLoss, "offsets 10 to 11 of T-0"),
    ],
)
def test_what_the_cluster_does_not_have_is_said_in_one_line(
    spark_node: RunningNode, ten_and_five: str, given: dict[str, str], error: type, words: str
) -> None:
    named = {name: text.replace('"T"', f'"{ten_and_five}"') for name, text in given.items()}
    asked = options(spark_node, ten_and_five) | named
    if "assign" in named:
        del asked["subscribe"]
    words = words.replace("T-", f"{ten_and_five}-").replace("'T'", f"'{ten_and_five}'")
    with pytest.raises(error, match=words) as caught:
        planned(spark_node, asked)
    assert "\n" not in str(caught.value)


def test_nobody_at_the_address_is_said_after_the_timeout() -> None:
    with Cluster("127.0.0.1:1", timeout_s=0.3) as cluster, pytest.raises(NoBroker) as caught:
        cluster.partitions("orders")
    assert "127.0.0.1:1 gives no answer about the cluster after 0.3 s" in str(caught.value)


def test_deleted_records_are_loss_with_their_exact_range_unless_that_is_allowed(
    spark_node: RunningNode, topic: str
) -> None:
    fill(spark_node, topic)
    given = options(spark_node, topic)
    before = planned(spark_node, given)
    Admin(spark_node.bootstrap).delete_records({TopicPartition(topic, 0): 4})
    from_zero = given | {"startingOffsets": by_partition(topic, 1, 0)}
    words = rf"data loss: offsets 1 to 3 of {topic}-0: retention or a deletion"
    with pytest.raises(DataLoss, match=words):
        planned(spark_node, from_zero)
    # The same where the records go while tasks already have their splits.
    with pytest.raises(DataLoss, match=rf"offsets 0 to 3 of {topic}-0"):
        rows_of(given, before)
    allowed = given | {"failOnDataLoss": "false"}
    assert [row["value"] for row in rows_of(allowed, before)] == [
        *numbered(6, start=4),
        *numbered(5),
    ]
    assert len(planned(spark_node, from_zero | {"failOnDataLoss": "false"})) == 2
    # And none of it is loss for who begins at the earliest record.
    assert len(rows_of(given, planned(spark_node, given))) == 11


def test_a_topic_created_again_while_tasks_read_is_noticed(
    spark_node: RunningNode, topic: str
) -> None:
    fill(spark_node, topic)
    given = options(spark_node, topic)
    splits = planned(spark_node, given)
    admin = Admin(spark_node.bootstrap)
    admin.delete_topic(topic)
    gone = rf"offsets 0 to 9 of {topic}-0: the topic was deleted"
    with pytest.raises(DataLoss, match=gone + r"\."):
        rows_of(given, splits)
    make_topic(spark_node, topic, partitions=2)
    produce(spark_node, topic, numbered(20))
    with pytest.raises(DataLoss, match=gone + " and created again"):
        rows_of(given, splits)
    assert rows_of(given | {"failOnDataLoss": "false"}, splits) == []


def test_gaps_from_compaction_are_no_loss(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node(tmp_path / "data", "--set", "log.cleaner.backoff.ms=50")
    make_topic(
        node,
        "compacted",
        cleanup_policy="compact",
        segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01",
    )
    with_keys: list[tuple[bytes, bytes]] = [
        (b"%d" % (number % 7), b"%d" % number + bytes(5000)) for number in range(600)
    ]
    with Producer(node.bootstrap) as producer:
        for key, value in with_keys:
            producer.send("compacted", value, key=key)
    given = options(node, "compacted", minPartitions="5")
    splits = planned(node, given)
    assert (splits[0].start, splits[-1].end, len(splits)) == (0, 600, 5)
    eventually(lambda: len(rows_of(given, splits)) < 600, "a compacted topic")
    left = rows_of(given, splits)
    assert {row["key"]: row["value"] for row in left} == dict(with_keys)
    offsets = [row["offset"] for row in left]
    assert offsets == sorted(set(offsets))


def test_a_broker_that_dies_and_comes_back_is_waited_for(
    start_node: StartNode, tmp_path: Path, topic: str
) -> None:
    node = start_node(tmp_path / "data")
    make_topic(node, topic)
    for start in range(0, 3000, 500):
        produce(node, topic, [each * 200 for each in numbered(500, start=start)])
    given = options(node, topic, kafka_fetch_max_bytes="100000")
    parsed = SourceOptions.parse(given).for_batch()
    (split,) = planned(node, given)
    reading = read_split(parsed, split, ("offset",))
    found = next(reading).column("offset").to_pylist()
    node.kill()
    node.restart()
    for batch in reading:
        found += batch.column("offset").to_pylist()
    assert found == list(range(3000))


OLD_BROKER = {
    0: 7,  # Produce
    1: 10,  # Fetch: by name, no topic ids
    2: 2,  # ListOffsets
    3: 7,  # Metadata: no topic ids
    8: 6,  # OffsetCommit
    9: 5,  # OffsetFetch
    10: 2,  # FindCoordinator: one key
    22: 1,  # InitProducerId
}
"""What Kafka 2.1 serves."""


def test_an_old_broker_is_read_as_well(
    spark_node: RunningNode, ten_and_five: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    negotiate = BrokerConnection._negotiate

    def as_an_old_broker(line: BrokerConnection) -> dict[int, tuple[int, int]]:
        served: dict[int, Any] = negotiate(line)
        return {
            key: (low, min(high, OLD_BROKER[key]))
            for key, (low, high) in served.items()
            if key in OLD_BROKER
        }

    monkeypatch.setattr(BrokerConnection, "_negotiate", as_an_old_broker)
    given = options(spark_node, ten_and_five)
    splits = planned(spark_node, given)
    assert {split.topic_id for split in splits} == {""}
    assert len(rows_of(given, splits)) == 15
    places = [TopicPartition(ten_and_five, 0)]
    with Cluster(spark_node.bootstrap) as cluster:
        cluster.commit("old", {places[0]: 3})
        assert cluster.committed("old", places) == {places[0]: 3}
        assert not cluster.serves([24])

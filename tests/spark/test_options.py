"""Every option of the source, right and wrong; each mistake is one clear line."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tidelog.spark.cluster import EARLIEST, LATEST
from tidelog.spark.errors import OptionError
from tidelog.spark.options import NAMES, Boundary, SourceOptions
from tidelog.spark.sink_options import AT_LEAST_ONCE, EXACTLY_ONCE, SinkOptions
from tidelog.wire.compression import Compression

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def parse(**more: str) -> SourceOptions:
    return SourceOptions.parse({**NEEDED, **more})


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("subscribe", "a, b,a", "subscribe", ("a", "b")),
        ("maxOffsetsPerTrigger", "100", "max_offsets_per_trigger", 100),
        ("minOffsetsPerTrigger", "10", "min_offsets_per_trigger", 10),
        ("maxTriggerDelay", "30s", "max_trigger_delay_ms", 30_000),
        ("maxTriggerDelay", "1500", "max_trigger_delay_ms", 1500),
        ("minPartitions", "8", "min_partitions", 8),
        ("maxRecordsPerPartition", "1000", "max_records_per_partition", 1000),
        ("failOnDataLoss", "false", "fail_on_data_loss", False),
        ("includeHeaders", "TRUE", "include_headers", True),
        ("kafka.group.id", "mine", "group", "mine"),
        ("columns", "value, OFFSET", "columns", ("value", "offset")),
        ("isolation.level", "read_committed", "is_committed", True),
        ("kafka.isolation.level", "read_committed", "is_committed", True),
        ("startingOffsetsByTimestampStrategy", "latest", "is_latest_without_match", True),
        ("kafka.client.id", "me", "client_id", "me"),
        ("kafka.request.timeout.ms", "2500", "timeout_s", 2.5),
        ("kafka.fetch.max.bytes", "4096", "fetch_max_bytes", 4096),
        ("maxDecompressedBytes", "4096", "max_decompressed_bytes", 4096),
        ("startingOffsets", "latest", "starting", Boundary("startingOffsets", LATEST)),
        ("endingOffsets", "Latest", "ending", Boundary("endingOffsets", LATEST)),
        (
            "startingOffsets",
            '{"orders": {"0": 5, "1": -2}}',
            "starting",
            Boundary("startingOffsets", offsets={"orders": {0: 5, 1: -2}}),
        ),
        (
            "startingTimestamp",
            "1700000000000",
            "starting",
            Boundary("startingTimestamp", timestamp_ms=1_700_000_000_000),
        ),
        (
            "endingOffsetsByTimestamp",
            '{"orders": {"0": 7}}',
            "ending",
            Boundary("endingOffsetsByTimestamp", timestamps_ms={"orders": {0: 7}}),
        ),
        ("endingTimestamp", "9", "ending", Boundary("endingTimestamp", timestamp_ms=9)),
    ],
)
@pytest.mark.parametrize("spelling", [str, str.upper, str.lower])
def test_an_option_is_taken_in_any_case_of_letters(
    name: str, text: str, field: str, value: object, spelling: Any
) -> None:
    parsed = SourceOptions.parse({"KAFKA.bootstrap.servers": "h:1", "subscribe": "x"} | {})
    assert parsed.subscribe == ("x",)
    needed = {each: given for each, given in NEEDED.items() if each != name}
    parsed = SourceOptions.parse({**needed, spelling(name): text})
    assert getattr(parsed, field) == value


def test_a_time_wins_over_offsets_and_one_for_all_over_one_for_each() -> None:
    given = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"orders": {"0": 1}}',
        "startingTimestamp": "5",
    }
    assert parse(**given).starting == Boundary("startingTimestamp", timestamp_ms=5)
    del given["startingTimestamp"]
    assert parse(**given).starting == Boundary(
        "startingOffsetsByTimestamp", timestamps_ms={"orders": {0: 1}}
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"maxOffsetPerTrigger": "1"}, "there is no option maxOffsetPerTrigger: did you mean max"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "this release connects without TLS and SASL"),
        ({"zzz": "1"}, "there is no option zzz: there are kafka.bootstrap.servers"),
        ({"kafka.bootstrap.servers": "nowhere"}, "must be HOST:PORT"),
        ({"assign": '{"a": [0]}'}, "exactly one of subscribe, assign and subscribePattern"),
        ({"subscribe": " , "}, "must name at least one"),
        ({"subscribe": ""}, "subscribe is empty"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger must be a whole number above 0"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number above 0, not '0'"),
        ({"maxRecordsPerPartition": "-3"}, "maxRecordsPerPartition must be a whole number"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false, not 'maybe'"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay must be a duration such as 30s"),
        ({"isolation.level": "none"}, "isolation.level must be read_uncommitted or read_committed"),
        ({"startingOffsets": "newest"}, "startingOffsets must be earliest, latest or"),
        ({"startingOffsets": "{"}, "startingOffsets is no JSON such as"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "partition '0' of 'orders' can't be -3"),
        ({"startingOffsets": '{"orders": [1]}'}, "'orders' must be as in"),
        ({"startingTimestamp": "yesterday"}, "must be milliseconds since 1970"),
        ({"columns": "value,nothing"}, "there is no column 'nothing'; there are key"),
        ({"columns": "headers"}, "set includeHeaders to true"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            r"minOffsetsPerTrigger \(5\) must not exceed maxOffsetsPerTrigger \(4\)",
        ),
    ],
)
def test_a_wrong_option_is_one_clear_line(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        parse(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "h:1"}, "give exactly one of subscribe, assign"),
        ({"kafka.bootstrap.servers": "h:1", "subscribePattern": "("}, "no regular expression"),
        ({"kafka.bootstrap.servers": "h:1", "assign": '{"a": 0}'}, "the partitions of 'a' must"),
        ({"kafka.bootstrap.servers": "h:1", "assign": "[]"}, "must be JSON such as"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        SourceOptions.parse(given)


def test_a_batch_begins_at_the_earliest_and_a_stream_at_the_latest() -> None:
    batch, stream = parse().for_batch(), parse().for_stream()
    assert batch.starting == Boundary("startingOffsets", EARLIEST)
    assert batch.ending == Boundary("endingOffsets", LATEST)
    assert stream.starting == Boundary("startingOffsets", LATEST)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "can't be latest in a batch"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "can't be latest in a batch"),
        ({"endingOffsets": "earliest"}, "endingOffsets can't be earliest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "endingOffsets can't be earliest"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is for streams"),
        ({"minOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger is for streams"),
    ],
)
def test_what_is_for_streams_only_is_refused_in_a_batch(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parse(**given).for_batch()


@pytest.mark.parametrize(
    "given",
    [
        {"endingOffsets": "latest"},
        {"endingTimestamp": "5"},
        {"endingOffsetsByTimestamp": '{"orders": {"0": 5}}'},
    ],
)
def test_a_stream_has_no_end(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(given))} is for batches"):
        parse(**given).for_stream()


def test_the_group_stays_the_same_as_long_as_the_subscription_does() -> None:
    assert parse(subscribe="a,b").group == parse(subscribe="b,a", minPartitions="4").group
    assert parse(subscribe="a").group != parse(subscribe="b").group
    assert parse(groupIdPrefix="mine").group.startswith("mine-")
    assert parse(groupIdPrefix="mine", **{"kafka.group.id": "g"}).group == "g"


def test_options_travel_to_executors() -> None:
    parsed = parse(startingOffsets='{"orders": {"0": 5}}', columns="value").for_batch()
    assert pickle.loads(pickle.dumps(parsed)) == parsed


def test_every_option_has_a_field_or_a_boundary() -> None:
    assert len(NAMES) == len(set(NAMES)) == 27


def test_the_sink_takes_its_own_options_and_sparks() -> None:
    given = {
        "kafka.bootstrap.servers": "h:1",
        "TOPIC": "orders",
        "kafka.compression.type": "zstd",
        "kafka.batch.size": "5000",
        "checkpointLocation": "somewhere",
        "kafka.acks": "all",
        "deliveryGuarantee": "at-least-once",
        "includeHeaders": "true",
    }
    parsed = SinkOptions.parse(given)
    assert (parsed.topic, parsed.compression) == ("orders", Compression.ZSTD)
    assert (parsed.max_batch_bytes, parsed.delivery_guarantee) == (5000, AT_LEAST_ONCE)
    exactly = SinkOptions.parse({**given, "deliveryGuarantee": "exactly-once"})
    assert exactly.delivery_guarantee == EXACTLY_ONCE


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"deliveryGuarantee": "twice"}, "deliveryGuarantee must be at-least-once or exactly-once"),
        ({"kafka.acks": "1"}, "kafka.acks must be all"),
        ({"kafka.compression.type": "rar"}, "kafka.compression.type must be none or gzip"),
        ({"subscribe": "orders"}, "there is no option subscribe"),
    ],
)
def test_a_wrong_option_of_the_sink_is_one_clear_line(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        SinkOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "orders", **given})

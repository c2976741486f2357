"""Batches with a right checksum and garbage inside: refused by a node, and survived by readers of
a log that has them all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.support.command_line import CommandLine
from tests.support.eventually import PATIENCE_S
from tests.support.garbage_batches import DEEP_GARBAGE, GARBAGE, SOUND_BODY, batch_with, record
from tests.support.node_process import RunningNode
from tests.support.raw_client import RawClient, patient_produce
from tests.support.shell import Shell

import tidelog as client_library
from tidelog.client import DamagedBatch
from tidelog.model.errors import ErrorCode

SILENT = GARBAGE["noise"]
"""librdkafka asks for it again and again, and says nothing."""

LOUD = GARBAGE["gzip that is none"]
"""librdkafka reports it, without a word about what is wrong."""

NO_TEXT = batch_with(record(tail=b"\0\x02\x04\xff\xfe\0"), 1)
"""A header's name is not UTF-8: sound for Kafka, and too much for confluent-kafka."""


@pytest.fixture
def client(shared_node: RunningNode) -> Iterator[RawClient]:
    with RawClient(shared_node) as client:
        yield client


def spoil(client: RawClient, topic: str, *batches: bytes) -> None:
    """A topic of three sound records, each but the last followed by one of `batches`."""
    client.create_topic(topic, records_validation="header")
    client.must_produce(topic, b"first")
    for batch in batches:
        assert client.produce_batch(topic, batch).error_code is ErrorCode.NONE
        client.must_produce(topic, b"next")


# --- what a node says -------------------------------------------------------------------------


@pytest.mark.parametrize("validation", ["full", "sampled"])
def test_each_kind_of_garbage_is_refused_and_readers_go_on(
    client: RawClient, validation: str
) -> None:
    topic = f"refused-{validation}"
    client.create_topic(topic, records_validation=validation)
    kinds = GARBAGE | DEEP_GARBAGE if validation == "full" else GARBAGE
    for kind, batch in kinds.items():
        answer = client.produce_batch(topic, batch)
        assert answer.error_code is ErrorCode.INVALID_RECORD, kind
        assert str(answer.error_message).startswith("the batch can't be read: "), kind
        assert (answer.base_offset, answer.record_errors) == (-1, []), kind
        client.must_produce(topic, kind.encode())
    assert client.produce_batch(topic, batch_with(SOUND_BODY, 3)).error_code is ErrorCode.NONE
    values = [*(kind.encode() for kind in kinds), b"one", b"two", b"three"]
    assert list(client.read(topic).values()) == values


def test_each_record_without_a_key_is_named_to_clients_that_can_hear_it(client: RawClient) -> None:
    client.create_topic("keyed", cleanup_policy="compact")
    body = record(0, key=0) + record(1) + record(2, key=0) + record(3)
    request = patient_produce("keyed", batch_with(body, 4))
    newer = client.request(request, 9).responses[0].partition_responses[0]
    assert newer.error_code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in newer.record_errors] == [1, 3]
    assert "has no key" in newer.record_errors[0].batch_index_error_message
    assert "2 records of the batch have no key" in newer.error_message
    older = client.request(request, 7).responses[0].partition_responses[0]
    assert (older.error_code, older.record_errors) == (ErrorCode.INVALID_RECORD, [])
    assert client.end_offset("keyed") == 0


# --- what readers make of it ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "batch", "offsets", "reason"),
    [
        ("silent", SILENT, "offsets 1 to 2", "bytes where"),
        ("loud", LOUD, "offsets 1 to 3", "gzip"),
        ("no-text", NO_TEXT, "offset 1", "not UTF-8"),
    ],
)
def test_consume_names_the_damaged_batch_in_one_line(
    shared_shell: Shell, client: RawClient, name: str, batch: bytes, offsets: str, reason: str
) -> None:
    spoil(client, name, batch)
    outcome = shared_shell("consume", name, "--exit-at-end")
    assert (outcome.code, outcome.output) == (1, "first\n")
    (line,) = outcome.errors.splitlines()
    assert line.startswith(f"error: {name}-0: the batch at {offsets} can't be read: ")
    assert reason in line
    behind = line.partition("read on from offset ")[2].partition(",")[0]
    outcome = shared_shell("consume", name, "--exit-at-end", "--from", behind)
    assert (outcome.code, outcome.output) == (0, "next\n")


@pytest.mark.parametrize("group", [(), ("--group", "g")])
def test_consume_passes_over_damaged_batches_if_told_to(
    shared_shell: Shell, client: RawClient, group: tuple[str, ...]
) -> None:
    topic = f"skipped-{len(group)}"
    spoil(client, topic, SILENT, LOUD, NO_TEXT)
    outcome = shared_shell("consume", topic, "--exit-at-end", "--skip-damaged", *group)
    assert (outcome.code, outcome.output) == (0, "first\n" + "next\n" * 3)
    lines = outcome.errors.splitlines()
    assert len(lines) == 3
    assert all("can't be read" in line and line.endswith("passed over") for line in lines)


def test_a_member_of_a_group_that_meets_damage_has_printed_and_committed_what_came_before(
    shared_shell: Shell, client: RawClient
) -> None:
    spoil(client, "grouped", SILENT)
    outcome = shared_shell("consume", "grouped", "--exit-at-end", "--group", "h")
    assert (outcome.code, outcome.output) == (1, "first\n")
    again = shared_shell("consume", "grouped", "--exit-at-end", "--group", "h", "--skip-damaged")
    assert (again.code, again.output) == (0, "next\n")


def test_our_consumers_raise_or_pass_over(shared_node: RunningNode, client: RawClient) -> None:
    spoil(client, "programs", SILENT)
    bootstrap, read = shared_node.bootstrap, []
    with (
        client_library.Consumer("programs", until_end=True, bootstrap=bootstrap) as consumer,
        pytest.raises(DamagedBatch) as caught,
    ):
        for message in consumer:
            read.append(message.value)
    assert read == [b"first"]
    found = caught.value
    assert (found.place, found.first_offset, found.next_offset) == (("programs", 0), 1, 3)

    async def read_all() -> list[bytes | None]:
        async with (
            asyncio.timeout(PATIENCE_S),
            client_library.aio.Consumer(
                "programs", until_end=True, skip_damaged=True, bootstrap=bootstrap
            ) as consumer,
        ):
            return [message.value async for message in consumer]

    assert asyncio.run(read_all()) == [b"first", b"next"]


@pytest.mark.parametrize("group", [None, "first"])
def test_damage_at_the_beginning_of_a_log_is_noticed(
    shared_node: RunningNode, client: RawClient, group: str | None
) -> None:
    topic = f"beginning-{group}"
    client.create_topic(topic, records_validation="header")
    assert client.produce_batch(topic, SILENT).error_code is ErrorCode.NONE
    where = shared_node.bootstrap
    with (
        client_library.Consumer(topic, group=group, bootstrap=where) as consumer,
        pytest.raises(DamagedBatch, match="offsets 0 to 1"),
    ):
        next(consumer)


def test_who_reads_from_the_end_does_not_care_for_damage_before_it(
    shared_node: RunningNode, client: RawClient
) -> None:
    client.create_topic("ending", records_validation="header")
    assert client.produce_batch("ending", SILENT).error_code is ErrorCode.NONE
    where = shared_node.bootstrap
    with client_library.Consumer(
        "ending", start="latest", idle_timeout_s=4.0, bootstrap=where
    ) as consumer:
        assert list(consumer) == []


def test_damage_that_comes_while_the_end_is_awaited_is_noticed(
    shared_node: RunningNode, client: RawClient
) -> None:
    spoil(client, "awaited")
    with client_library.Consumer("awaited", bootstrap=shared_node.bootstrap) as consumer:
        assert next(consumer).value == b"first"
        assert client.produce_batch("awaited", SILENT).error_code is ErrorCode.NONE
        with pytest.raises(DamagedBatch, match="offsets 1 to 2"):
            next(consumer)


def test_dump_shows_garbage_as_a_problem_with_its_offset(
    tidelog: CommandLine, client: RawClient, shared_node: RunningNode
) -> None:
    for number, (kind, batch) in enumerate((GARBAGE | DEEP_GARBAGE).items()):
        topic = f"dumped-{number}"
        spoil(client, topic, batch)
        (segment,) = shared_node.data_dir.glob(f"topics/{topic}.*/0/*.log")
        outcome = tidelog("dump", str(segment), "--records")
        if kind.startswith("offsets"):
            assert outcome.code == 0, "only their offsets are odd, and they are shown"
        else:
            assert outcome.code == 1, kind
            assert "offset 1: " in " ".join(outcome.output.split()), kind

"""Copies in the making take their time, and nobody else does."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.unit.log.logs import a_batch, append, flush, read, settings
from tests.unit.partition.replicas import ME, OTHER, a_log, a_membership, a_state, an_answer

from tidelog.log.disk import FileSpan
from tidelog.model.clock import Now
from tidelog.model.ids import NodeId, Offset, PartitionKey, TopicPartition
from tidelog.model.settings import InvalidSetting, parse_settings
from tidelog.partition.fetcher import Fetcher, SendFetch
from tidelog.partition.follower import Follower
from tidelog.partition.throttle import UNLIMITED, Throttle, is_listed
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse

RATE = 100_000
BATCH = 30_000


def test_over_any_span_the_bytes_are_bounded_by_the_rate() -> None:
    for seed in range(20):
        luck = Random(seed)
        throttle = Throttle(RATE)
        taken: list[tuple[float, int]] = []
        now_ms = 0.0
        while now_ms < 60_000:
            now_ms = max(now_ms + luck.random() * 50, throttle.ready_ms)
            reserved = throttle.reserve(now_ms, 1_048_576)
            used = luck.choice((0, reserved // 2, reserved, reserved + luck.randrange(BATCH)))
            throttle.settle(now_ms, reserved=reserved, used=used)
            taken.append((now_ms, used))
        for begin in range(0, len(taken), 7):
            total = 0
            for at_ms, used in taken[begin:]:
                total += used
                allowed = RATE * (at_ms - taken[begin][0]) / 1000 + RATE + 2 * BATCH
                assert total <= allowed, f"seed {seed}: {total} bytes by {at_ms}"


def test_the_whole_rate_is_used_when_there_is_enough_to_fetch() -> None:
    throttle = Throttle(RATE)
    now_ms, total = 0.0, 0
    while now_ms < 10_000:
        now_ms = max(now_ms + 1, throttle.ready_ms)
        reserved = throttle.reserve(now_ms, 1_048_576)
        throttle.settle(now_ms, reserved=reserved, used=reserved)
        total += reserved
    assert RATE * 10 <= total <= RATE * 11


def test_what_was_reserved_and_did_not_come_is_given_back() -> None:
    throttle = Throttle(RATE)
    assert throttle.reserve(0, 1_048_576) == RATE
    assert throttle.ready_ms > 0
    throttle.settle(0, reserved=RATE, used=0)
    assert throttle.ready_ms <= 0


def test_a_batch_that_is_larger_than_the_budget_is_paid_for_afterwards() -> None:
    throttle = Throttle(1000)
    reserved = throttle.reserve(0, 1_048_576)
    throttle.settle(0, reserved=reserved, used=11_000)
    assert throttle.ready_ms == pytest.approx(10_100)


def test_without_a_rate_nothing_waits() -> None:
    throttle = Throttle()
    assert throttle.reserve(0, 1_048_576) == 1_048_576
    throttle.settle(0, reserved=0, used=10**12)
    assert throttle.ready_ms <= 0


def test_the_rate_changes_while_it_runs() -> None:
    throttle = Throttle(1000)
    throttle.settle(0, reserved=0, used=1_001_000)
    assert throttle.ready_ms == pytest.approx(1_000_100)
    throttle.limit(100_000, 0)
    assert throttle.ready_ms == pytest.approx(10_100)
    throttle.limit(UNLIMITED, 0)
    assert throttle.ready_ms <= 0


def test_a_list_names_partitions_with_nodes_or_all() -> None:
    assert is_listed("*", 3, NodeId(1))
    assert is_listed("0:1,3:2", 3, NodeId(2))
    assert not is_listed("0:1,3:2", 3, NodeId(1))
    assert not is_listed("", 0, NodeId(1))


def test_a_list_that_makes_no_sense_is_refused() -> None:
    name = "follower.replication.throttled.replicas"
    assert parse_settings({name: "0:1, 2:3"}, "topic") == {name: "0:1,2:3"}
    assert parse_settings({name: ""}, "topic") == {name: ""}
    with pytest.raises(InvalidSetting, match="all"):
        parse_settings({name: "all"}, "topic")


# --- in the fetcher -------------------------------------------------------------------------------


def following(*, isr: tuple[int, ...], rate: int, count: int = 1) -> tuple[Fetcher, list[Follower]]:
    membership = a_membership()
    membership.throttle.limit(rate, 0)
    fetcher = Fetcher(OTHER, membership)
    followers = []
    for number in range(count):
        state = replace(
            a_state(leader=OTHER, isr=isr),
            key=PartitionKey(a_state().key.topic_id, number),
            name=TopicPartition("orders", number),
        )
        configured = replace(settings(), follower_replication_throttled_replicas="*")
        follower = Follower(state, a_log(seed=number), configured, membership)
        fetcher.add(follower)
        followers.append(follower)
    return fetcher, followers


def asked(fetch: SendFetch | None) -> dict[int, int]:
    """By partition: how many bytes."""
    assert fetch is not None
    return {
        one.partition: one.partition_max_bytes
        for topic in fetch.request.topics
        for one in topic.partitions
    }


def answer(fetcher: Fetcher, follower: Follower, number: int, now_ms: float, data: bytes) -> None:
    row = an_answer(data, high_watermark=1)
    row.partition_index = follower.key.partition
    topic = FetchableTopicResponse(topic_id=follower.key.topic_id, partitions=[row])
    fetcher.answered(Now(now_ms, 0), number, FetchResponse(responses=[topic]), {})
    flush(follower.log)


def a_large_batch() -> bytes:
    log = a_log(seed=9)
    append(log, a_batch(value=b"x" * BATCH))
    span = read(log, 0)
    assert isinstance(span, FileSpan)
    return span.read()


def test_a_copy_in_the_making_is_asked_for_less_and_then_waits() -> None:
    fetcher, (follower,) = following(isr=(2, 3), rate=10_000)
    fetch = fetcher.next_request(0)
    assert asked(fetch) == {0: 10_000}
    assert fetch is not None
    answer(fetcher, follower, fetch.number, 5, a_large_batch())
    assert follower.log.log_end_offset == Offset(1)
    assert fetcher.next_request(6) is None
    due_ms = fetcher.next_deadline()
    assert due_ms is not None
    assert 2000 < due_ms < 2400
    assert asked(fetcher.next_request(due_ms)) == {0: 1000}


def test_a_copy_that_is_in_sync_is_never_held_back() -> None:
    fetcher, (follower,) = following(isr=(1, 2, 3), rate=10_000)
    fetch = fetcher.next_request(0)
    assert asked(fetch) == {0: 1_048_576}
    assert fetch is not None
    answer(fetcher, follower, fetch.number, 5, a_large_batch())
    assert asked(fetcher.next_request(6)) == {0: 1_048_576}


def test_one_budget_serves_all_copies_in_turn() -> None:
    fetcher, _ = following(isr=(2, 3), rate=10_000, count=2)
    first = asked(fetcher.next_request(0))
    assert first == {0: 10_000}
    assert fetcher.next_request(1) is None
    assert asked(fetcher.next_request(500)) == {1: 5000}


def test_a_request_that_failed_costs_nothing() -> None:
    fetcher, _ = following(isr=(2, 3), rate=10_000)
    fetch = fetcher.next_request(0)
    assert fetch is not None
    fetcher.failed(1, fetch.number)
    assert asked(fetcher.next_request(100)) == {0: 10_000}


def test_a_node_follows_its_own_name_in_the_list() -> None:
    fetcher, (follower,) = following(isr=(2, 3), rate=10_000)
    follower.configure(replace(settings(), follower_replication_throttled_replicas="0:9"))
    assert asked(fetcher.next_request(0)) == {0: 1_048_576}
    follower.configure(replace(settings(), follower_replication_throttled_replicas=f"0:{ME}"))
    assert follower.is_throttled

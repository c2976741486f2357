"""Many nodes to fetch from: only those are asked what to send to whom something has happened."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.support.call_counts import python_calls_of
from tests.unit.log.logs import settings
from tests.unit.partition.replicas import a_log, a_membership, a_state, an_answer
from tests.unit.partition.test_fetcher import one_record

from tidelog.model.clock import Now
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionKey, TopicPartition
from tidelog.partition.fetcher import SendFetch
from tidelog.partition.following import Following
from tidelog.partition.membership import Membership
from tidelog.partition.replica import Replica
from tidelog.partition.throttle import UNLIMITED
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse

FIRST_SOURCE = 100


def idle(
    sources: int, *, rate: int = UNLIMITED
) -> tuple[Following, Membership, list[Replica], list[SendFetch]]:
    """One partition is followed from each source, and asked for."""
    membership = a_membership()
    membership.throttle.limit(rate, 0)
    following = Following(membership)
    replicas = []
    topic = settings(follower_replication_throttled_replicas="" if rate == UNLIMITED else "*")
    for number in range(sources):
        source = NodeId(FIRST_SOURCE + number)
        isr = (source,) if rate != UNLIMITED else (1, source)
        base = a_state(leader=source, replicas=(1, source), isr=isr)
        state = replace(
            base,
            key=PartitionKey(base.key.topic_id, number),
            name=TopicPartition("orders", number),
        )
        replica = Replica(state, a_log(seed=number), topic, membership, now_ms=0)
        following.place(replica)
        replicas.append(replica)
    fetches = following.next_fetches(0)
    assert [fetch.source for fetch in fetches] == [FIRST_SOURCE + n for n in range(sources)]
    following.next_deadline()
    return following, membership, replicas, fetches


def step(following: Following, now_ms: float) -> list[SendFetch]:
    """What each step of a member asks."""
    following.tick(now_ms)
    fetches = following.next_fetches(now_ms)
    following.next_deadline()
    return fetches


def answer_to(fetch: SendFetch, records: bytes = b"") -> FetchResponse:
    (topic,) = fetch.request.topics
    data = an_answer(records, high_watermark=1) if records else an_answer()
    data.partition_index = topic.partitions[0].partition
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=topic.topic_id, partitions=[data])]
    )


def flush(replica: Replica) -> None:
    ticket = replica.flush_ticket()
    assert ticket is not None
    for target in ticket.targets:
        target.sync()
    replica.flushed(ticket)


def test_a_step_that_concerns_no_fetcher_asks_none() -> None:
    few, many = (python_calls_of(partial(step, idle(sources)[0], 1))[0] for sources in (2, 99))
    assert many <= few + 3, (few, many)


def test_an_answer_concerns_one_fetcher() -> None:
    costs = []
    for sources in (2, 99):
        following, _, _, fetches = idle(sources)
        following.answered(Now(1, 1), fetches[0], answer_to(fetches[0]))
        costs.append(python_calls_of(partial(step, following, 1))[0])
    assert costs[1] <= costs[0] + 3, costs


def test_who_was_answered_asks_again() -> None:
    following, _, _, fetches = idle(3)
    following.answered(Now(1, 1), fetches[1], answer_to(fetches[1]))
    assert [fetch.source for fetch in step(following, 1)] == [fetches[1].source]
    assert step(following, 2) == []


def test_who_waits_for_a_flush_asks_when_it_is_over() -> None:
    following, _, (first, _), fetches = idle(2)
    following.answered(Now(1, 1), fetches[0], answer_to(fetches[0], one_record()))
    assert step(following, 1) == []
    flush(first)
    assert [fetch.source for fetch in step(following, 1)] == [fetches[0].source]


def test_who_had_to_pause_asks_when_its_time_has_come() -> None:
    following, _, _, fetches = idle(3)
    following.failed(5, fetches[2])
    assert step(following, 5) == []
    assert following.next_deadline() == 25
    assert step(following, 24) == []
    assert [fetch.source for fetch in step(following, 25)] == [fetches[2].source]


def test_who_is_synced_without_a_flush_asks_a_little_later() -> None:
    following, _, (first, _), fetches = idle(2)
    following.answered(Now(1, 1), fetches[0], answer_to(fetches[0], one_record()))
    assert step(following, 1) == []
    first.log.sync()
    assert following.next_deadline() == 501
    assert [fetch.source for fetch in step(following, 501)] == [fetches[0].source]


def test_who_is_flushed_during_a_pause_asks_after_it() -> None:
    following, _, (first, second), (fetch, _) = idle(2)
    follow_elsewhere(second, fetch.source)
    following.place(second)
    (other,) = step(following, 1)
    following.answered(Now(2, 2), fetch, answer_to(fetch, one_record()))
    assert step(following, 2) == []
    following.failed(3, other)
    assert step(following, 3) == []
    flush(first)
    assert step(following, 4) == []
    assert following.next_deadline() == 23
    assert [each.source for each in step(following, 23)] == [fetch.source]


def follow_elsewhere(replica: Replica, source: NodeId) -> None:
    state = replica.state
    moved = replace(
        state,
        leader=source,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        replicas=(NodeId(1), source),
    )
    replica.follow(moved, 1)


def test_an_answer_that_does_not_come_is_given_up() -> None:
    following, _, _, fetches = idle(2)
    deadline = following.next_deadline()
    assert deadline == 500 + 30_000
    assert step(following, deadline) == []
    assert following.next_deadline() == deadline + 20
    assert len(step(following, deadline + 20)) == len(fetches)


def test_a_higher_rate_is_used_at_once() -> None:
    following, membership, (copy,), (fetch,) = idle(1, rate=1)
    following.answered(Now(0, 0), fetch, answer_to(fetch, one_record()))
    flush(copy)
    assert step(following, 1) == []
    debt_ms = following.next_deadline()
    assert debt_ms is not None
    assert debt_ms > 10_000
    membership.throttle.limit(1_000_000, 2)
    assert len(step(following, 200)) == 1


def test_a_rate_that_was_not_there_before_holds_for_all_that_is_followed() -> None:
    following, membership, (copy,), (fetch,) = idle(1, rate=1_000_000)
    membership.throttle.limit(UNLIMITED, 0)
    following.answered(Now(0, 0), fetch, answer_to(fetch))
    (fetch,) = step(following, 1)
    following.answered(Now(1, 1), fetch, FetchResponse(session_id=7, responses=[]))
    membership.throttle.limit(1_000, 2)
    assert step(following, 2) == [], "the budget has to come together first"
    (fetch,) = step(following, 300)
    (topic,) = fetch.request.topics
    assert topic.partitions[0].partition_max_bytes < 1_000
    following.validate({copy.key: copy})


def test_a_partition_that_is_led_by_another_node_now_is_fetched_from_there() -> None:
    following, _, (first, second), _ = idle(2)
    follow_elsewhere(first, NodeId(7))
    following.place(first)
    (fetch,) = step(following, 1)
    assert fetch.source == 7
    following.validate({first.key: first, second.key: second})

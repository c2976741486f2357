"""The fetcher's end of a fetch session: what it names, what it forgets, when it starts over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.log.logs import a_batch, append, flush, settings
from tests.unit.partition.replicas import OTHER, a_follower, a_membership, a_state, an_answer
from tests.unit.partition.test_fetcher import TOPIC_ID, following, named, of, one_record

from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.partition.fetcher import Fetched, Fetcher, SendFetch
from tidelog.partition.fetcher_session import FetcherSession
from tidelog.partition.follower import Follower
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

SESSION = 77


def answer(
    fetcher: Fetcher,
    fetch: SendFetch,
    *data: PartitionData,
    session_id: int = SESSION,
    error: ErrorCode = ErrorCode.NONE,
) -> Fetched:
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(data))
    response = FetchResponse(
        error_code=error, session_id=session_id, responses=[topic] if data else []
    )
    return fetcher.answered(Now(0, 0), fetch.number, response, {})


def ask(fetcher: Fetcher, now_ms: float = 0) -> SendFetch:
    fetch = fetcher.next_request(now_ms)
    assert fetch is not None
    fetcher.validate()
    return fetch


def epoch_of(fetch: SendFetch) -> tuple[int, int]:
    return fetch.request.session_id, fetch.request.session_epoch


def forgotten(fetch: SendFetch) -> list[int]:
    assert all(topic.topic_id == TOPIC_ID for topic in fetch.request.forgotten_topics_data)
    return [n for topic in fetch.request.forgotten_topics_data for n in topic.partitions]


def in_session(count: int) -> tuple[Fetcher, list[Follower], SendFetch]:
    """All are in a session, and the second request of it is under way."""
    fetcher, followers = following(count)
    first = ask(fetcher)
    assert (epoch_of(first), named(first)) == ((0, 0), list(range(count)))
    answer(fetcher, first)
    return fetcher, followers, ask(fetcher)


def test_once_it_has_a_session_it_names_only_what_has_changed() -> None:
    fetcher, followers, fetch = in_session(3)
    assert (epoch_of(fetch), named(fetch)) == ((SESSION, 1), [])
    answer(fetcher, fetch, of(1, an_answer(one_record(), high_watermark=1)))
    flush(followers[1].log)
    fetch = ask(fetcher)
    assert (epoch_of(fetch), named(fetch)) == ((SESSION, 2), [1])
    assert fetch.request.topics[0].partitions[0].fetch_offset == 1
    answer(fetcher, fetch, of(1, an_answer(high_watermark=1)))
    assert (named(ask(fetcher)), followers[1].log.log_end_offset) == ([], 1)


def test_a_watermark_alone_is_nothing_to_be_told_of() -> None:
    fetcher, followers, fetch = in_session(1)
    answer(fetcher, fetch, an_answer(one_record()))
    flush(followers[0].log)
    fetched = answer(fetcher, ask(fetcher), an_answer(high_watermark=1))
    assert fetched.moved == [followers[0].key]
    assert named(ask(fetcher)) == []


def test_who_has_an_error_is_forgotten_and_named_again_when_it_may_ask() -> None:
    fetcher, _, fetch = in_session(2)
    answer(fetcher, fetch, of(1, an_answer(error=ErrorCode.UNKNOWN_LEADER_EPOCH)))
    fetch = ask(fetcher, 1)
    assert (named(fetch), forgotten(fetch)) == ([], [1])
    assert fetcher.next_deadline() == 20
    again = ask(fetcher, 20)
    assert (again.lane, epoch_of(again), named(again)) == (1, (0, 0), [1])


def test_who_is_followed_elsewhere_is_forgotten() -> None:
    fetcher, followers, fetch = in_session(3)
    fetcher.remove(followers[2].key)
    fetcher.remove(followers[0].key)
    answer(fetcher, fetch, of(0, an_answer(one_record())))
    assert followers[0].log.log_end_offset == 0
    fetch = ask(fetcher)
    assert (named(fetch), forgotten(fetch)) == ([], [2, 0])
    answer(fetcher, fetch)
    assert forgotten(ask(fetcher)) == []


def test_who_goes_while_the_first_request_is_under_way_is_forgotten_with_the_second() -> None:
    fetcher, followers = following(2)
    first = ask(fetcher)
    fetcher.remove(followers[0].key)
    answer(fetcher, first)
    assert forgotten(ask(fetcher)) == [0]


def test_a_partition_that_comes_back_before_the_leader_has_heard_is_not_forgotten() -> None:
    fetcher, followers, fetch = in_session(2)
    fetcher.remove(followers[1].key)
    fetcher.add(followers[1])
    answer(fetcher, fetch)
    fetch = ask(fetcher)
    assert (named(fetch), forgotten(fetch)) == ([1], [])


def test_a_new_leader_epoch_does_not_wait_for_the_long_poll_of_the_old_one() -> None:
    fetcher, followers, first = in_session(2)
    state = replace(a_state(leader=OTHER, epoch=6), key=followers[1].key, name=followers[1].name)
    newer = Follower(state, followers[1].log, settings(), a_membership())
    fetcher.add(newer)
    second = ask(fetcher)
    assert (second.lane, named(second)) == (1, [1])
    assert second.request.topics[0].partitions[0].current_leader_epoch == 6
    answer(fetcher, first, of(1, an_answer(one_record())))
    assert newer.log.log_end_offset == 0, "an answer to the follower of the old epoch"
    fetch = ask(fetcher)
    assert (fetch.lane, forgotten(fetch)) == (0, [1])


def test_when_both_lanes_are_free_all_go_on_in_the_first() -> None:
    fetcher, followers = following(2)
    fetcher.remove(followers[1].key)
    first = ask(fetcher)
    fetcher.add(followers[1])
    second = ask(fetcher)
    answer(fetcher, second, session_id=8)
    again = ask(fetcher)
    assert (again.lane, epoch_of(again), named(again)) == (1, (8, 1), [])
    answer(fetcher, again, of(1, an_answer(one_record())), session_id=8)
    answer(fetcher, first)
    assert fetcher.next_request(0) is None, "it waits for the flush"
    flush(followers[1].log)
    fetch = ask(fetcher)
    assert (fetch.lane, epoch_of(fetch), named(fetch)) == (0, (SESSION, 1), [1])
    fetcher.remove(followers[1].key)
    fetcher.add(followers[1])
    assert epoch_of(ask(fetcher)) == (8, 0), "the second session is closed by the next"


def test_without_an_answer_it_starts_over_and_closes_the_session() -> None:
    fetcher, _, fetch = in_session(2)
    fetcher.failed(5, fetch.number)
    assert fetcher.next_request(24) is None
    fetch = ask(fetcher, 25)
    assert (epoch_of(fetch), named(fetch)) == ((SESSION, 0), [0, 1])


@pytest.mark.parametrize(
    ("error", "closed"),
    [
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION),
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
    ],
)
def test_a_leader_with_another_view_is_told_all_at_once(error: ErrorCode, closed: int) -> None:
    fetcher, _, fetch = in_session(2)
    answer(fetcher, fetch, session_id=0, error=error)
    fetch = ask(fetcher)
    assert (epoch_of(fetch), named(fetch)) == ((closed, 0), [0, 1])
    answer(fetcher, fetch, session_id=0, error=error)
    assert fetcher.next_request(0) is None, "a full request can't be out of step"


def test_an_answer_of_another_session_is_taken_and_the_session_starts_over() -> None:
    fetcher, followers, fetch = in_session(1)
    answer(fetcher, fetch, an_answer(one_record()), session_id=78)
    assert followers[0].log.log_end_offset == 1
    flush(followers[0].log)
    assert epoch_of(ask(fetcher)) == (SESSION, 0)


def test_without_a_session_each_request_is_full_and_who_got_records_goes_last() -> None:
    fetcher, followers = following(3)
    answer(fetcher, ask(fetcher), of(0, an_answer(one_record())), session_id=0)
    flush(followers[0].log)
    fetch = ask(fetcher)
    assert (epoch_of(fetch), named(fetch)) == ((0, 0), [1, 2, 0])


def test_another_registration_is_told_with_a_session_of_its_own() -> None:
    fetcher, _, fetch = in_session(2)
    answer(fetcher, fetch)
    fetcher._membership.broker_epoch = 11
    fetch = ask(fetcher)
    assert (epoch_of(fetch), named(fetch)) == ((SESSION, 0), [0, 1])
    assert fetch.request.replica_state.replica_epoch == 11


def test_damage_is_told_with_the_next_request() -> None:
    fetcher, followers, fetch = in_session(2)
    for _ in range(3):
        append(followers[1].log, a_batch(), epoch=5)
    flush(followers[1].log)
    followers[1].flushed()
    answer(fetcher, fetch)
    fetch = ask(fetcher)
    assert named(fetch) == [1]
    followers[1].log.first_damaged_offset = lambda: Offset(1)  # type: ignore[method-assign]
    followers[1].look_for_damage()
    answer(fetcher, fetch)
    (told,) = ask(fetcher).request.topics[0].partitions
    assert (told.partition, told.fetch_offset) == (1, 1)


def test_what_was_truncated_is_told_with_the_next_request() -> None:
    fetcher, (follower,), fetch = in_session(1)
    for _ in range(3):
        append(follower.log, a_batch(), epoch=4)
    flush(follower.log)
    follower.flushed()
    answer(fetcher, fetch)
    answer(fetcher, ask(fetcher), an_answer(diverging=(4, 2)))
    flush(follower.log)
    (told,) = ask(fetcher).request.topics[0].partitions
    assert (told.fetch_offset, told.last_fetched_epoch) == (2, 4)


def test_a_copy_in_the_making_is_in_a_session_only_while_it_is_asked_for() -> None:
    fetcher, followers, fetch = in_session(2)
    fetcher._throttle.limit(10_000, 0)
    fetcher.look_at_all()
    followers[1].configure(settings(follower_replication_throttled_replicas="*"))
    followers[1].follow(a_state(leader=OTHER, isr=(2, 3)))
    answer(fetcher, fetch)
    fetch = ask(fetcher)
    assert [(p.partition, p.partition_max_bytes) for p in fetch.request.topics[0].partitions] == [
        (1, 10_000)
    ]
    answer(fetcher, fetch, of(1, an_answer(one_record())))
    flush(followers[1].log)
    fetcher._throttle.settle(0, reserved=0, used=10_000)
    fetch = ask(fetcher)
    assert (named(fetch), forgotten(fetch)) == ([], [1])


def test_after_the_last_epoch_comes_the_first() -> None:
    membership = a_membership()
    session = FetcherSession(membership)
    follower = a_follower(following(1)[1][0].log)
    session.request([(follower, follower.fetch())])
    assert session.answered(FetchResponse(session_id=SESSION, responses=[]))
    session._epoch = 2**31 - 1
    assert session.request([]).session_epoch == 2**31 - 1
    assert session.answered(FetchResponse(session_id=SESSION, responses=[]))
    assert session.request([]).session_epoch == 1


def test_what_a_follower_says_in_another_epoch_is_something_else() -> None:
    session = FetcherSession(a_membership())
    follower = a_follower(following(1)[1][0].log)
    session.request([(follower, follower.fetch())])
    assert session.knows(follower)
    follower.leader_epoch = LeaderEpoch(6)
    assert not session.knows(follower)

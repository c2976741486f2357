"""All partitions of one source in one request after the other."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.log.logs import a_batch, append, flush, read, settings
from tests.unit.partition.replicas import ME, OTHER, a_log, a_membership, a_state, an_answer

from tidelog.log.disk import FileSpan
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, PartitionKey, TopicId, TopicPartition
from tidelog.partition.fetcher import Fetched, Fetcher, SendFetch
from tidelog.partition.follower import Follower
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

TOPIC_ID = a_state().key.topic_id


def following(count: int) -> tuple[Fetcher, list[Follower]]:
    membership = a_membership()
    fetcher = Fetcher(OTHER, membership)
    followers = []
    for number in range(count):
        state = replace(
            a_state(leader=OTHER),
            key=PartitionKey(TOPIC_ID, number),
            name=TopicPartition("orders", number),
        )
        follower = Follower(state, a_log(seed=number), settings(), membership)
        fetcher.add(follower)
        followers.append(follower)
    return fetcher, followers


def named(fetch: SendFetch | None) -> list[int]:
    assert fetch is not None
    assert all(topic.topic_id == TOPIC_ID for topic in fetch.request.topics)
    return [one.partition for topic in fetch.request.topics for one in topic.partitions]


def answer(
    fetcher: Fetcher, number: int, *data: PartitionData, topic_id: TopicId = TOPIC_ID
) -> Fetched:
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic_id=topic_id, partitions=list(data))]
    )
    return fetcher.answered(Now(0, 0), number, response, {})


def one_record() -> bytes:
    log = a_log(seed=9)
    append(log, a_batch())
    span = read(log, 0)
    assert isinstance(span, FileSpan)
    return span.read()


def of(partition: int, data: PartitionData) -> PartitionData:
    data.partition_index = partition
    return data


def test_a_request_says_who_asks_and_names_all_partitions() -> None:
    fetcher, _ = following(2)
    fetch = fetcher.next_request(0)
    assert named(fetch) == [0, 1]
    assert fetch is not None
    state = fetch.request.replica_state
    assert (state.replica_id, state.replica_epoch, fetch.request.replica_id) == (ME, 10, ME)
    assert (fetch.request.session_id, fetch.request.session_epoch) == (0, 0)


def test_who_comes_later_is_asked_for_on_a_lane_of_its_own() -> None:
    fetcher, followers = following(2)
    fetcher.remove(followers[1].key)
    first = fetcher.next_request(0)
    fetcher.add(followers[1])
    second = fetcher.next_request(1)
    assert (named(first), named(second)) == ([0], [1])
    assert first is not None
    assert second is not None
    assert (first.lane, second.lane) == (0, 1)
    answer(fetcher, second.number, of(1, an_answer(one_record())))
    assert followers[1].log.log_end_offset == 1
    flush(followers[1].log)
    assert named(fetcher.next_request(2)) == [1]
    answer(fetcher, first.number, an_answer(one_record()))
    assert followers[0].log.log_end_offset == 1


def test_one_request_at_a_time_and_the_next_after_the_flush() -> None:
    fetcher, followers = following(2)
    fetch = fetcher.next_request(0)
    assert fetch is not None
    assert fetcher.next_request(1) is None
    fetched = answer(fetcher, fetch.number, of(0, an_answer(one_record(), high_watermark=1)))
    assert fetched == ([followers[0].key], [followers[0].key])
    assert fetcher.next_request(1) is None
    flush(followers[0].log)
    assert named(fetcher.next_request(1)) == [1, 0]


def test_an_answer_to_another_request_is_dropped() -> None:
    fetcher, followers = following(1)
    fetch = fetcher.next_request(0)
    assert fetch is not None
    assert answer(fetcher, fetch.number + 1, an_answer(one_record())) == ([], [])
    fetcher.failed(0, fetch.number)
    assert answer(fetcher, fetch.number, an_answer(one_record())) == ([], [])
    assert followers[0].log.log_end_offset == 0


def test_a_partition_that_is_followed_elsewhere_by_now_takes_nothing() -> None:
    fetcher, followers = following(2)
    fetch = fetcher.next_request(0)
    assert fetch is not None
    fetcher.remove(followers[0].key)
    answer(fetcher, fetch.number, an_answer(one_record()))
    assert followers[0].log.log_end_offset == 0
    assert named(fetcher.next_request(0)) == [1]


def test_after_a_failure_or_a_long_silence_it_waits_and_asks_again() -> None:
    fetcher, _ = following(1)
    fetch = fetcher.next_request(0)
    assert fetch is not None
    fetcher.failed(5, fetch.number)
    assert fetcher.next_deadline() == 25
    assert fetcher.next_request(24) is None
    assert fetcher.next_request(25) is not None
    deadline = fetcher.next_deadline()
    assert deadline == 25 + 500 + 30_000
    fetcher.tick(deadline)
    assert fetcher.next_deadline() == deadline + 40
    assert fetcher.next_request(deadline + 40) is not None


def test_who_has_to_wait_does_not_keep_the_others_waiting() -> None:
    fetcher, followers = following(2)
    fetch = fetcher.next_request(0)
    assert fetch is not None
    refusal = an_answer(error=ErrorCode.UNKNOWN_LEADER_EPOCH, high_watermark=-1)
    answer(fetcher, fetch.number, of(1, refusal))
    assert named(fetcher.next_request(1)) == [0]
    assert followers[1].ready_ms == 20
    assert followers[1].position == Offset(0)

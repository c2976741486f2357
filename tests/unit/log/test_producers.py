"""Sequence numbers: gaps refused, repeats recognized, nothing forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.log.logs import a_batch, append, fill, open_log, settings

from tidelog.log.log import Log
from tidelog.log.producers import Producers
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.runtime.file_disk import FileDisk
from tidelog.wire.batch import BatchHeader, read_header

LAST = 2**31 - 1
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
NOW = 1_000_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(FileDisk(tmp_path))


def send(log: Log, sequence: int, *, count: int = 1, epoch: int = 0, pid: int = 7) -> object:
    """The base offset, or the error."""
    result = append(log, a_batch(count, producer=(pid, epoch, sequence)))
    return result.base_offset if result.error is ErrorCode.NONE else result.error


def header(pid: int, sequence: int, *, epoch: int = 0, count: int = 1) -> BatchHeader:
    return read_header(a_batch(count, producer=(pid, epoch, sequence)))


def test_sequences_follow_on(log: Log) -> None:
    assert [send(log, 0, count=3), send(log, 3), send(log, 4)] == [0, 3, 4]
    assert send(log, 6) is OUT_OF_ORDER
    assert send(log, 5) == 5


def test_a_repeat_of_one_of_the_last_five_batches_is_answered_with_its_offset(log: Log) -> None:
    for sequence in range(8):
        send(log, sequence * 2, count=2)
    for sequence in range(3, 8):
        result = append(log, a_batch(2, producer=(7, 0, sequence * 2)))
        assert result[:5] == (ErrorCode.NONE, sequence * 2, sequence * 2 + 1, 0, True)
    assert send(log, 4, count=2) is OUT_OF_ORDER
    assert log.log_end_offset == 16


def test_half_a_repeat_is_a_gap(log: Log) -> None:
    send(log, 0, count=4)
    assert send(log, 0, count=2) is OUT_OF_ORDER
    assert send(log, 2, count=2) is OUT_OF_ORDER


def test_sequences_wrap_around_to_zero(log: Log) -> None:
    assert send(log, LAST - 2, count=3) == 0
    assert send(log, 0) == 3
    assert send(log, LAST - 2, count=3) == 0


def test_a_batch_may_span_the_wrap(log: Log) -> None:
    assert send(log, LAST - 1, count=4) == 0
    assert send(log, 2) == 4
    assert send(log, LAST - 1, count=4) == 0
    assert send(log, LAST) is OUT_OF_ORDER


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert send(log, 500) == 0
    assert send(log, 501) == 1


def test_a_new_epoch_begins_at_zero_and_fences_the_old(log: Log) -> None:
    send(log, 0)
    assert send(log, 1, epoch=1) is OUT_OF_ORDER
    assert send(log, 0, epoch=1) == 1
    assert send(log, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(log, 0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(log, 0, epoch=1) == 1
    assert send(log, 1, epoch=1) == 2


def test_producers_do_not_mind_each_other(log: Log) -> None:
    assert [send(log, n, pid=pid) for n in range(3) for pid in (1, 2)] == [0, 1, 2, 3, 4, 5]
    fill(log, 3)
    assert send(log, 3, pid=1) == 12


class TestRequestsOfSeveralBatches:
    def test_they_are_judged_as_if_one_had_come_after_the_other(self, log: Log) -> None:
        result = append(log, *(a_batch(2, producer=(7, 0, 2 * number)) for number in range(3)))
        assert (result.base_offset, result.last_offset) == (0, 5)
        assert send(log, 6) == 6

    def test_a_gap_between_them_refuses_them_all(self, log: Log) -> None:
        result = append(log, a_batch(2, producer=(7, 0, 0)), a_batch(producer=(7, 0, 3)))
        assert result.error is OUT_OF_ORDER
        assert log.log_end_offset == 0

    def test_a_repeat_is_a_repeat_of_all(self, log: Log) -> None:
        batches = [a_batch(2, producer=(7, 0, 0)), a_batch(3, producer=(7, 0, 2))]
        append(log, *batches)
        assert append(log, *batches)[:5] == (ErrorCode.NONE, 0, 4, 0, True)
        assert append(log, batches[1])[:5] == (ErrorCode.NONE, 2, 4, 0, True)

    def test_old_and_new_together_are_refused(self, log: Log) -> None:
        send(log, 0)
        old, new = a_batch(producer=(7, 0, 0)), a_batch(producer=(7, 0, 1))
        assert append(log, old, new).error is OUT_OF_ORDER
        assert append(log, new, old).error is OUT_OF_ORDER
        assert append(log, old, a_batch()).error is OUT_OF_ORDER
        assert append(log, new, new).error is OUT_OF_ORDER
        assert log.log_end_offset == 1

    def test_a_repeat_of_batches_that_lie_apart_is_refused(self, log: Log) -> None:
        send(log, 0)
        fill(log, 1)
        send(log, 1)
        result = append(log, a_batch(producer=(7, 0, 0)), a_batch(producer=(7, 0, 1)))
        assert result.error is OUT_OF_ORDER


def test_without_the_safeguard_a_repeat_is_appended_again(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path), safeguards=ALL_SAFEGUARDS - {Safeguard.DEDUPE_WINDOW})
    assert [send(log, 0), send(log, 0)] == [0, 1]


class TestOwed:
    """A batch was refused for the moment: what follows it must wait, and is told so."""

    FULL = ErrorCode.KAFKA_STORAGE_ERROR

    @pytest.fixture
    def producers(self) -> Producers:
        """Of one that was not known, and its first batch."""
        producers = Producers()
        producers.owe(header(7, 0, count=4), NOW, self.FULL)
        return producers

    def test_what_follows_is_refused_likewise_until_it_comes(self, producers: Producers) -> None:
        assert producers.judge([header(7, 4)], NOW + 1) is self.FULL
        assert producers.judge([header(7, 4), header(7, 5)], NOW + 1) is self.FULL
        first = header(7, 0, count=4)
        assert producers.judge([first], NOW + 2) is None
        producers.note(first, 0, NOW + 2)
        assert producers.judge([header(7, 4)], NOW + 3) is None
        assert producers.judge([header(7, 5)], NOW + 3) is OUT_OF_ORDER

    def test_that_what_follows_was_refused_makes_no_difference(self, producers: Producers) -> None:
        producers.owe(header(7, 4), NOW + 1, self.FULL)
        assert producers.judge([header(7, 4)], NOW + 2) is self.FULL
        assert producers.judge([header(7, 0, count=4)], NOW + 2) is None

    def test_others_and_later_epochs_are_not_concerned(self, producers: Producers) -> None:
        assert producers.judge([header(8, 4)], NOW) is None
        assert producers.judge([header(7, 4, epoch=1)], NOW) is None

    def test_nothing_is_owed_for_ever(self, producers: Producers) -> None:
        assert producers.judge([header(7, 4)], NOW + 60_000) is None

    def test_it_may_begin_anywhere(self) -> None:
        """As at a topic that was deleted and made anew while a producer went on."""
        producers = Producers()
        producers.owe(header(7, LAST), NOW, self.FULL)
        assert producers.judge([header(7, 0)], NOW) is self.FULL
        assert producers.judge([header(7, LAST)], NOW) is None

    def test_a_known_producers_next_batch_is_owed_too(self) -> None:
        """Told that it is out of order, librdkafka would begin a new epoch, and send in it what it
        has not been told to be there."""
        producers = Producers()
        producers.note(header(7, 0), 0, NOW)
        producers.owe(header(7, 1), NOW, self.FULL)
        assert producers.judge([header(7, 2)], NOW) is self.FULL
        assert producers.judge([header(7, 0)], NOW) == (0, 0)
        assert producers.judge([header(7, 1)], NOW) is None
        producers.note(header(7, 1), 1, NOW)
        assert producers.judge([header(7, 3)], NOW) is OUT_OF_ORDER

    def test_so_is_the_first_of_a_new_epoch(self) -> None:
        producers = Producers()
        producers.note(header(7, 5), 0, NOW)
        producers.owe(header(7, 0, epoch=1), NOW, self.FULL)
        assert producers.judge([header(7, 1, epoch=1)], NOW) is self.FULL
        assert producers.judge([header(7, 0, epoch=1)], NOW) is None

    def test_what_leaves_a_gap_is_not_owed(self) -> None:
        producers = Producers()
        producers.note(header(7, 0), 0, NOW)
        producers.owe(header(7, 5), NOW, self.FULL)
        assert producers.judge([header(7, 6)], NOW) is OUT_OF_ORDER

    def test_no_more_is_remembered_than_of_producers(self) -> None:
        producers = Producers(limit=2)
        for pid in (1, 2, 3):
            producers.owe(header(pid, 0), NOW, self.FULL)
        assert producers.judge([header(1, 1)], NOW) is None
        assert producers.judge([header(2, 1)], NOW) is self.FULL

    def test_a_first_batch_that_was_cut_off_is_owed_again(self, log: Log) -> None:
        assert send(log, 0, pid=8) == 0
        assert [send(log, 0), send(log, 1)] == [1, 2]
        log.truncate_to(Offset(1))
        assert send(log, 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert send(log, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert send(log, 0) == 1
        assert send(log, 1, pid=8) == 2


def test_the_longest_silent_producer_is_forgotten_first() -> None:
    producers = Producers(limit=3)
    for pid in (1, 2, 3):
        producers.note(header(pid, 0), pid)
    producers.note(header(1, 1), 10)
    producers.note(header(4, 0), 11)
    assert len(producers) == 3
    assert producers.judge([header(2, 77)], NOW) is None
    assert producers.judge([header(1, 77)], NOW) is OUT_OF_ORDER


def test_a_snapshot_restores_everything() -> None:
    producers, restored = Producers(), Producers()
    for number in range(40):
        producers.note(header(number % 6, number, epoch=number % 3, count=2), number * 2)
    data = producers.encode(80)
    assert restored.decode(data, 80)
    assert restored == producers


def test_a_snapshot_with_a_flipped_bit_is_refused() -> None:
    producers = Producers()
    for number in range(3):
        producers.note(header(number, 0), number)
    data = producers.encode(3)
    for byte in range(len(data)):
        wrong = bytearray(data)
        wrong[byte] ^= 1
        assert not Producers().decode(bytes(wrong), 3)
        assert not Producers().decode(data[:byte], 3)
    assert not Producers().decode(data, 4)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("is_spoilt", [False, True])
def test_a_restart_forgets_no_producer(tmp_path: Path, is_clean: bool, is_spoilt: bool) -> None:
    config = settings(segment_bytes=2000)
    log = open_log(FileDisk(tmp_path), config=config)
    for sequence in range(60):
        send(log, sequence, pid=sequence % 2)
        send(log, sequence, pid=100 + sequence)
    if is_clean:
        log.close_cleanly()
    if is_spoilt:
        for path in (tmp_path / "orders-0").glob("*.snapshot"):
            path.write_bytes(path.read_bytes()[:-1])
    again = open_log(FileDisk(tmp_path), clean=is_clean, config=config)
    assert again.producers == log.producers


def test_without_the_safeguard_a_restart_forgets_them(tmp_path: Path) -> None:
    log = open_log(FileDisk(tmp_path))
    send(log, 0)
    log.close_cleanly()
    without = ALL_SAFEGUARDS - {Safeguard.PRODUCER_STATE_RESTORE}
    log = open_log(FileDisk(tmp_path), clean=True, safeguards=without)
    assert send(log, 0) == 1

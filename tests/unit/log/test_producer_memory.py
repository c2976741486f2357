"""What is remembered of producers besides their sequences: when, for how long, and on disk."""

from __future__ import annotations

import struct

from crc32c import crc32c
from tests.unit.log.cleaning import settle
from tests.unit.log.logs import a_batch, append, open_log

from tidelog.log.producers import Producers, ProducerView
from tidelog.model.errors import ErrorCode
from tidelog.sim.disk import SimDisk
from tidelog.wire.batch import read_header

NOW_MS = 100_000


def heard(producers: Producers, pid: int, *, now_ms: int, timestamp: int = 5) -> None:
    batch = a_batch(2, timestamps=[timestamp, timestamp - 1], producer=(pid, 3, 10))
    producers.note(read_header(batch), 0, now_ms)


def ids(producers: Producers) -> list[int]:
    return [view.producer_id for view in producers.describe()]


def test_a_producer_is_described_by_its_last_batch() -> None:
    producers = Producers()
    heard(producers, 7, now_ms=NOW_MS, timestamp=900)
    assert producers.describe() == [ProducerView(7, 3, 11, 900)]


def test_who_is_silent_for_long_is_forgotten() -> None:
    producers = Producers()
    for pid, now_ms in ((1, 1000), (2, 2000), (3, 3000)):
        heard(producers, pid, now_ms=now_ms)
    assert producers.expire(2000, 1000) == 0
    assert producers.expire(2001, 1000) == 1
    assert ids(producers) == [2, 3]
    heard(producers, 2, now_ms=3500)
    assert producers.expire(4400, 1000) == 1
    assert ids(producers) == [2]


def test_sending_old_records_is_not_silence() -> None:
    producers = Producers()
    heard(producers, 1, now_ms=NOW_MS, timestamp=1)
    assert producers.expire(NOW_MS + 10, 1000) == 0


def test_after_a_start_the_silence_is_counted_anew(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(producer=(1, 0, 0)), now_ms=1000)
    settle(log)
    sim_disk.lose_power()
    producers = open_log(sim_disk).producers
    assert producers.expire(NOW_MS, 500) == 0
    assert producers.expire(NOW_MS + 500, 500) == 0
    assert producers.expire(NOW_MS + 501, 500) == 1


def test_a_forgotten_producer_may_begin_anywhere(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(producer=(1, 0, 0)), now_ms=1000)
    log.producers.expire(5000, 10)
    assert append(log, a_batch(producer=(1, 0, 77))).error is ErrorCode.NONE


def test_the_last_timestamp_survives_a_restart(sim_disk: SimDisk) -> None:
    log = open_log(sim_disk)
    append(log, a_batch(timestamps=[900, 800], producer=(1, 0, 0)))
    log.close_cleanly()
    assert open_log(sim_disk, clean=True).producers.describe() == [ProducerView(1, 0, 1, 900)]


def test_a_snapshot_of_the_first_version_is_still_read() -> None:
    body = struct.pack(">4sBqi", b"TDLP", 1, 40, 2)
    for pid in (7, 8):
        body += struct.pack(">qhb", pid, 3, 2)
        body += struct.pack(">iiqi", 5, 6, 30, 1) + struct.pack(">iiqi", 7, 7, 35, 0)
    producers = Producers()
    assert producers.decode(body + struct.pack(">I", crc32c(body)), 40)
    assert producers.describe() == [ProducerView(7, 3, 7, -1), ProducerView(8, 3, 7, -1)]
    again = Producers()
    assert again.decode(producers.encode(40), 40)
    assert again == producers


def test_a_snapshot_of_a_later_version_is_ignored() -> None:
    producers = Producers()
    heard(producers, 7, now_ms=NOW_MS)
    body = bytearray(producers.encode(40)[:-4])
    body[4] += 1
    assert not Producers().decode(bytes(body) + struct.pack(">I", crc32c(body)), 40)


def test_a_batch_is_remembered_while_its_repetition_would_be_recognized() -> None:
    producers = Producers()
    for number in range(6):
        header = read_header(a_batch(producer=(7, 0, number)))
        producers.note(header, number * 10)
    assert [producers.remembers(7, number * 10) for number in range(6)] == [False] + [True] * 5
    assert not producers.remembers(8, 50)
    assert not producers.remembers(-1, 50)


def test_what_damage_may_hide_is_refused_while_others_may_have_it() -> None:
    """And it is remembered: who loads the snapshot knows no more than who wrote it."""
    producers = Producers()
    heard(producers, 7, now_ms=NOW_MS)
    producers.lost_sight()
    again = Producers()
    assert again.decode(producers.encode(40), 40)
    next_of_known = read_header(a_batch(producer=(7, 3, 12)))
    first_of_new = read_header(a_batch(producer=(8, 0, 0)))
    for knows in (producers, again):
        for header in (next_of_known, first_of_new):
            told = knows.judge([header], NOW_MS, awaits_repair=True)
            assert told is ErrorCode.KAFKA_STORAGE_ERROR
            assert knows.judge([header], NOW_MS) is None
        known = read_header(a_batch(2, producer=(7, 3, 10)))
        assert isinstance(knows.judge([known], NOW_MS, awaits_repair=True), tuple)
        knows.note(next_of_known, 50)
        assert knows.judge([read_header(a_batch(producer=(7, 3, 13)))], NOW_MS) is None


def test_a_snapshot_of_before_damage_was_told_is_read() -> None:
    producers = Producers()
    heard(producers, 7, now_ms=NOW_MS)
    body = bytearray(producers.encode(40)[:-4])
    body[4] = 2
    del body[17 + 20]  # of the producer
    del body[17]  # of all
    again = Producers()
    assert again.decode(bytes(body) + struct.pack(">I", crc32c(body)), 40)
    assert again == producers

"""Walking over the records of a batch: what is sound, what is not, and how far it goes."""

from __future__ import annotations

import pytest
from tests.support.garbage_batches import SOUND_BODY, record

from tidelog.model.limits import MAX_BATCH_HEADERS
from tidelog.wire.batch import HEADER_BYTES
from tidelog.wire.errors import DecodeError
from tidelog.wire.record_walk import walk_records
from tidelog.wire.records import Record, encode_batch
from tidelog.wire.varints import append_varint


def walked(body: bytes, count: int, keyless: list[int] | None = None) -> int:
    return walk_records(body, body_bytes=len(body), count=count, most=count, keyless=keyless)


def body_of(*records: Record) -> bytes:
    return bytes(encode_batch(records, base_offset=0)[HEADER_BYTES:])


def test_sound_records_are_walked_to_the_last_byte() -> None:
    assert walked(SOUND_BODY, 3) == 0


def test_lengths_of_any_width_are_understood() -> None:
    sizes = (0, 1, 60, 63, 64, 127, 128, 8191, 8192, 70_000)
    records = [Record(0, 5, bytes(size), bytes(size)) for size in sizes]
    assert walked(body_of(*records), len(records)) == 0


def test_the_latest_timestamp_is_told_wherever_it_stands() -> None:
    times = (100, 90, 50_000, 99)
    assert walked(body_of(*(Record(0, time) for time in times)), 4) == 49_900
    assert walked(body_of(Record(0, 2**62), Record(0, 0)), 2) == 0


def test_records_without_a_key_are_named() -> None:
    keyless: list[int] = []
    keys = (b"a", None, b"", None)
    walked(body_of(*(Record(0, 1, key) for key in keys)), 4, keyless)
    assert keyless == [1, 3]


def test_headers_are_walked() -> None:
    headers = [("name", b"value"), ("", None), ("long" * 50, b"v" * 300)]
    assert walked(body_of(Record(0, 1, headers=headers), Record(0, 1)), 2) == 0


@pytest.mark.parametrize(
    ("body", "count", "said"),
    [
        (record(size=2**30), 1, "index 0 of 1 records: its length is 1073741824 where 6 bytes"),
        (record(size=-5), 1, "its length is -5"),
        (record(0) + record(5), 2, "index 1 of 2 records: its offset within the batch is 5"),
        (record(key=-2), 1, "its key or value has the length -2"),
        (record(tail=b"\x03\0"), 1, "its key or value has the length -2"),
        (record(tail=b"\0\x80\x01" + bytes(9)), 1, "it claims 64 headers"),
        (record(tail=b"\0\x01"), 1, "it claims -1 headers"),
        (record(tail=b"\0\x02\x01\0"), 1, "the key of a header has the length -1"),
        (record(tail=b"\0\x02\0\x03"), 1, "its key or value has the length -2"),
        (record(tail=b"\0\0\0"), 1, "its fields do not add up to its length"),
        (record(tail=b"\x08\0"), 1, "is cut off"),
        (record(size=3), 1, "its fields do not add up to its length"),
        (b"\xff" * 20, 1, "a varint is longer than five bytes"),
        (b"", 1, "it is cut off"),
        (b"\x80", 1, "it is cut off"),
        (SOUND_BODY, 4, "index 3 of 4 records: it is cut off"),
        (SOUND_BODY, 2, "bytes follow the last of 2 records"),
        (SOUND_BODY + b"\0", 3, "1 bytes follow the last of 3 records"),
    ],
)
def test_what_is_wrong_is_said_with_the_index_of_the_record(
    body: bytes, count: int, said: str
) -> None:
    with pytest.raises(DecodeError, match=said):
        walked(body, count)


class TestManyHeaders:
    """Empty ones: two bytes each, and next to nothing when they are compressed."""

    @staticmethod
    def body(*counts: int, filler: bytes = b"\0\1") -> bytes:
        out = bytearray()
        for offset, count in enumerate(counts):
            tail = bytearray(1)
            append_varint(tail, count)
            out += record(offset, tail=bytes(tail) + filler * count)
        return bytes(out)

    def test_as_many_as_the_limit_are_accepted(self) -> None:
        assert walked(self.body(3, MAX_BATCH_HEADERS - 3), 2) == 0

    def test_more_than_the_limit_are_refused_and_not_walked(self) -> None:
        what_a_walk_would_stumble_over = b"\xff"
        body = self.body(MAX_BATCH_HEADERS + 1, filler=what_a_walk_would_stumble_over)
        with pytest.raises(DecodeError, match=r"1000000 \(MAX_BATCH_HEADERS\)"):
            walked(body, 1)

    def test_the_limit_is_for_all_records_together(self) -> None:
        last = self.body(0, 0, MAX_BATCH_HEADERS - 1, filler=b"\xff")[2 * len(record()) :]
        with pytest.raises(DecodeError, match="index 2 of 3 records: the headers up to here are"):
            walked(self.body(1, 1) + last, 3)


class TestTheBeginning:
    """Of a batch of 40 records, the first few."""

    body = b"".join(map(record, range(20))) + bytes(200)

    def look(self, most: int, available: int | None = None) -> int:
        return walk_records(self.body[:available], body_bytes=len(self.body), count=40, most=most)

    def test_what_follows_is_not_looked_at(self) -> None:
        self.look(20)
        with pytest.raises(DecodeError, match="index 20"):
            self.look(21)

    @pytest.mark.parametrize("available", range(1, 60))
    def test_it_ends_where_no_more_bytes_are_given(self, available: int) -> None:
        assert self.look(20, available) in (0, -(2**63))

    def test_a_record_may_not_reach_beyond_the_whole(self) -> None:
        body = record(size=500) + bytes(100)
        with pytest.raises(DecodeError, match="its length is 500"):
            walk_records(body[:20], body_bytes=len(body), count=40, most=8)
        walk_records(body[:20], body_bytes=600, count=40, most=8)

    def test_the_last_record_reaches_to_the_end_though_it_is_not_seen(self) -> None:
        body = record() + record(1, size=500) + bytes(494)
        walk_records(body[:20], body_bytes=len(body), count=2, most=8)
        with pytest.raises(DecodeError, match="index 1 of 2 records: its length is 500 where 501"):
            walk_records(body[:20], body_bytes=len(body) + 1, count=2, most=8)
        with pytest.raises(DecodeError, match="bytes follow the last of 1 records"):
            walk_records(body[:20], body_bytes=len(body), count=1, most=8)

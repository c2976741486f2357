"""The batch header without opening the batch."""

from __future__ import annotations

import pytest
from tests.support.stamping import stamp

from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.batch import (
    HEADER_BYTES,
    computed_crc,
    has_valid_crc,
    iter_batches,
    read_header,
)
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Record, encode_batch


def _batch(count: int = 3) -> bytearray:
    records = [Record(0, 1000 + n, b"k", b"v%d" % n) for n in range(count)]
    return encode_batch(records, base_offset=0, producer_id=7, producer_epoch=1, base_sequence=4)


def test_a_header_tells_what_the_batch_holds() -> None:
    header = read_header(_batch())
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1002)
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (7, 4, 6)
    assert header.is_idempotent
    assert not header.is_transactional
    assert not header.is_control
    assert header.size == len(_batch())


def test_stamping_leaves_the_checksum_valid() -> None:
    batch = _batch()
    stamp(batch, Offset(500), LeaderEpoch(9))
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (500, 9)
    assert has_valid_crc(batch, header)


def test_every_byte_behind_the_checksum_is_covered_by_it() -> None:
    batch = _batch()
    crc = computed_crc(batch)
    for place in range(21, len(batch)):
        batch[place] ^= 1
        assert computed_crc(batch) != crc
        batch[place] ^= 1


def test_batches_follow_each_other() -> None:
    data = memoryview(bytes(_batch(1) + _batch(2)))
    assert [header.records_count for header, _ in iter_batches(data)] == [1, 2]
    assert b"".join(bytes(batch) for _, batch in iter_batches(data)) == bytes(data)


@pytest.mark.parametrize("size", [0, 1, HEADER_BYTES - 1])
def test_less_than_a_header_is_refused(size: int) -> None:
    with pytest.raises(DecodeError):
        read_header(bytes(size))


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_a_lying_batch_length_is_refused(length: int) -> None:
    batch = _batch()
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(DecodeError):
        list(iter_batches(memoryview(batch)))

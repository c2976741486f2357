"""The checks that look at bytes on a disk."""

from __future__ import annotations

from tidelog.sim.checkers.producers import check_sequences
from tidelog.sim.checkers.storage import check_recovery
from tidelog.sim.survey import LogBytes, headers_of
from tidelog.sim.workload.payload import Sent, encode_sent
from tidelog.wire.batch import BatchHeader


def header(sequence: int, *, count: int = 1, producer_id: int = 1) -> BatchHeader:
    records = [Sent(value, 0, 0) for value in range(count)]
    batch = encode_sent(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    (found,) = headers_of(bytes(batch))
    assert found is not None
    return found


def test_recovery_to_anything_between_synced_and_written_is_right() -> None:
    before = {"a": LogBytes(written=b"abcdef", synced=b"abc")}
    for recovered in (b"abc", b"abcd", b"abcdef"):
        assert check_recovery(before, {"a": recovered}, expected=["a"]) == []


def test_recovery_that_loses_synced_bytes_is_found() -> None:
    before = {"a": LogBytes(written=b"abcdef", synced=b"abc")}
    (finding,) = check_recovery(before, {"a": b"ab"}, expected=["a"])
    assert finding.property == "S1"


def test_recovery_that_invents_bytes_is_found() -> None:
    before = {"a": LogBytes(written=b"abcdef", synced=b"abc")}
    (finding,) = check_recovery(before, {"a": b"abcx"}, expected=["a"])
    assert finding.property == "S1"
    assert "byte 3" in finding.text


def test_a_log_that_vanished_is_found_unless_it_was_deleted() -> None:
    before = {"a": LogBytes(written=b"abc", synced=b"abc")}
    assert [f.property for f in check_recovery(before, {}, expected=["a"])] == ["S8"]
    assert check_recovery(before, {}, expected=[]) == []


def test_sequences_without_gap_are_right_also_around_the_wrap() -> None:
    last = 2**31 - 1
    assert check_sequences("t", [header(0), header(1, count=3), header(4)]) == []
    assert check_sequences("t", [header(last - 1, count=3), header(1)]) == []


def test_a_gap_or_a_repeat_in_a_producers_sequences_is_found() -> None:
    assert [f.property for f in check_sequences("t", [header(0), header(2)])] == ["T2"]
    assert [f.property for f in check_sequences("t", [header(0), header(0)])] == ["T2"]


def test_nothing_is_said_of_sequences_across_damage() -> None:
    assert check_sequences("t", [header(0), None, header(7)]) == []


def test_producers_are_told_apart() -> None:
    headers = [header(0), header(0, producer_id=2), header(1), header(1, producer_id=2)]
    assert check_sequences("t", headers) == []

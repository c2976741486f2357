"""I18 on logs made by hand: at rest, replicas hold the same, however far they are compacted."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.log.cleaning import (
    BUFFER_BYTES,
    NOW_MS,
    clean,
    close_segment,
    compacted,
    keyed,
    records_of,
)
from tests.unit.log.logs import a_batch, append, flush, open_log

from tidelog.log.cleaner import Cleaning
from tidelog.log.log import Log
from tidelog.model.ids import NodeId
from tidelog.sim.disk import SimDisk
from tidelog.sim.replicated.convergence import find_difference

Keyed = tuple[bytes, bytes | None]
ONE, OTHER, THIRD = NodeId(1), NodeId(2), NodeId(3)

STORY: tuple[Keyed, ...] = tuple((b"key %d" % (n % 3), b"%d" % n * 30) for n in range(12))


def a_compacted_log(*records: Keyed) -> Log:
    """A batch for each; all in closed segments, and none compacted yet."""
    log = open_log(SimDisk(Random(1)), config=compacted())
    for record in records:
        append(log, keyed([record]))
    close_segment(log)
    return log


def a_log_with_a_keyless_record() -> Log:
    """It is compacted only now."""
    log = open_log(SimDisk(Random(1)))
    append(log, keyed([(None, b"1")]))
    append(log, keyed([(b"a", b"1")]))
    close_segment(log)
    log.configure(compacted())
    return log


def test_what_is_the_same_to_the_byte_is_the_same() -> None:
    logs = {node_id: a_compacted_log(*STORY) for node_id in (ONE, OTHER, THIRD)}
    assert find_difference(logs) is None


def test_a_log_that_is_not_compacted_has_to_be_the_same_to_the_byte() -> None:
    logs = {node_id: open_log(SimDisk(Random(1))) for node_id in (ONE, OTHER, THIRD)}
    for node_id, log in logs.items():
        append(log, a_batch(value=b"odd" if node_id == OTHER else b"even"))
        flush(log)
    assert find_difference(logs) == "not the same on all of its nodes: [1, 2]"


def test_one_node_may_have_compacted_and_another_not() -> None:
    cleaned = a_compacted_log(*STORY)
    clean(cleaned)
    assert find_difference({ONE: a_compacted_log(*STORY), OTHER: cleaned}) is None


def test_one_node_may_be_in_the_middle_of_a_pass() -> None:
    """Segments are replaced one after the other; that the log is compacted is noted at the end."""
    half_cleaned = a_compacted_log(*STORY)
    before = half_cleaned.size_bytes()
    cleaning = Cleaning(
        half_cleaned, limit_offset=half_cleaned.log_end_offset, buffer_bytes=BUFFER_BYTES
    )
    while half_cleaned.size_bytes() == before:
        assert not cleaning.step(NOW_MS, 1)
        flush(half_cleaned)
    assert half_cleaned.cleaned_offset == 0
    assert find_difference({ONE: a_compacted_log(*STORY), OTHER: half_cleaned}) is None


def test_a_tombstone_may_be_gone() -> None:
    story = ((b"a", b"1"), (b"a", None), (b"b", b"1"))
    emptied = a_compacted_log(*story)
    for now_ms in (NOW_MS, NOW_MS + 5000):
        append(emptied, keyed([(b"c", b"%d" % now_ms)]))
        close_segment(emptied)
        clean(emptied, now_ms=now_ms)
    assert [record.offset for record in records_of(emptied)] == [2, 4]
    full = a_compacted_log(*story, *((b"c", b"%d" % now_ms) for now_ms in (NOW_MS, NOW_MS + 5000)))
    assert find_difference({ONE: full, OTHER: emptied}) is None


def test_a_record_without_a_key_may_be_gone() -> None:
    logs = [a_log_with_a_keyless_record() for _ in range(2)]
    clean(logs[1])
    assert [record.offset for record in records_of(logs[1])] == [1]
    assert find_difference({ONE: logs[0], OTHER: logs[1]}) is None


@pytest.mark.parametrize("is_missing_there", [False, True])
def test_the_latest_record_of_a_key_has_to_be_there(is_missing_there: bool) -> None:
    log = a_compacted_log(*STORY, (b"only here", b"1"))
    other = a_compacted_log(*STORY)
    held = {ONE: other, OTHER: log} if is_missing_there else {ONE: log, OTHER: other}
    lacking = ONE if is_missing_there else OTHER
    assert find_difference(held) == f"without its record at 12 on [{lacking}]"


def test_a_record_that_both_have_has_to_be_the_same() -> None:
    changed = (*STORY[:11], (STORY[11][0], b"changed"))
    cleaned = a_compacted_log(*changed)
    clean(cleaned)
    difference = find_difference({ONE: a_compacted_log(*STORY), OTHER: cleaned})
    assert difference == "not the same at 11 on its nodes [1, 2]"

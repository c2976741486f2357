"""The checks of logs that are cleaned: what may go has gone rightly, and all else must stay."""

from __future__ import annotations

from tests.unit.sim.builder import Story

from tidelog.sim.history import dump, load


def table(*, is_compacted: bool = True, forgets_tombstones: bool = False) -> Story:
    """Key 1 was written twice, key 2 was written and deleted, key 3 is new."""
    story = Story().cleaned(is_compacted=is_compacted, forgets_tombstones=forgets_tombstones)
    story.put(1, 10, 0).put(2, 11, 1).put(1, 12, 2).put(2, 13, 3, is_tombstone=True)
    return story.put(3, 14, 4)


ALL = [(0, 1, 10, 0), (1, 2, 11, 0), (2, 1, 12, 0), (3, 2, 13, 1), (4, 3, 14, 0)]


def test_a_log_before_and_after_compaction_has_no_findings() -> None:
    assert table().scan(0, 5, ALL).scan(0, 5, ALL[2:]).broken() == []


def test_a_cleaned_logs_history_is_the_same_after_writing_and_reading_it() -> None:
    entries = table().scan(0, 5, ALL).entries
    assert dump(load(dump(entries))) == dump(entries)


def test_the_last_record_of_a_key_must_stay() -> None:
    assert table().scan(0, 5, [ALL[0], *ALL[3:]]).broken() == ["C22"]


def test_without_compaction_every_record_must_stay() -> None:
    assert table(is_compacted=False).scan(0, 5, ALL[2:]).broken() == ["C22"]


def test_what_lies_below_the_start_may_go() -> None:
    assert table(is_compacted=False).scan(0, 5, ALL).scan(2, 5, ALL[2:]).broken() == []


def test_a_start_that_goes_back_is_found() -> None:
    assert table().scan(2, 5, ALL[2:]).scan(0, 5, ALL).broken() == ["C21"]


def test_a_tombstone_that_goes_too_early_is_found() -> None:
    assert table().scan(0, 5, [ALL[2], ALL[4]]).broken() == ["C22"]


def test_a_tombstone_may_go_when_its_time_is_over() -> None:
    assert table(forgets_tombstones=True).scan(0, 5, [ALL[2], ALL[4]]).broken() == []


def test_a_tombstone_may_not_go_before_what_it_deletes() -> None:
    story = table(forgets_tombstones=True).scan(0, 5, [ALL[1], ALL[2], ALL[4]])
    assert story.broken() == ["C22"]


def test_a_record_that_moves_to_another_offset_is_found() -> None:
    moved = [(1, 1, 12, 0), *ALL[3:]]
    assert "C22" in table().scan(0, 5, moved).broken()


def test_in_a_cluster_whoever_serves_a_page_tells_only_of_itself() -> None:
    story = Story().cleaned(is_compacted=False, is_replicated=True).put(1, 10, 0).put(2, 11, 1)
    story.delete_records(1).scan(0, 2, [(0, 1, 10, 0), (1, 2, 11, 0)])
    assert story.find_start(1).broken() == []
    assert story.find_start(0).broken() == ["C21"]


def test_a_record_that_nobody_wrote_is_found() -> None:
    assert table().scan(0, 6, [*ALL[2:], (5, 4, 99, 0)]).broken() == ["C22"]


def test_a_write_whose_answer_was_lost_may_have_replaced_the_last_record() -> None:
    story = table().lose_put(3, 15).scan(0, 6, [*ALL[2:4], (5, 3, 15, 0)])
    assert story.broken() == []


def test_what_was_written_during_a_read_need_not_be_in_it() -> None:
    assert table().scan(0, 5, ALL).put(5, 16, 5).broken() == []


def test_a_lost_write_that_nobody_ever_met_has_replaced_nothing() -> None:
    assert table().lose_put(3, 15).scan(0, 5, ALL[2:]).broken() == []
    assert table().lose_put(3, 15).scan(0, 5, ALL[2:4]).broken() == ["C22"]

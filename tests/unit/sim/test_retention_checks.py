"""The checks of what goes with time or with reading, on histories written by hand."""

from __future__ import annotations

from tests.unit.sim.builder import Story

from tidelog.sim.clock import EPOCH_MS

HOUR_MS = 3_600_000


def aged() -> Story:
    """Three records of about the beginning of time, kept for an hour."""
    story = Story().clock(EPOCH_MS).cleaned(is_compacted=False).retained("age", HOUR_MS)
    return story.put(1, 10, 0).put(1, 11, 1).put(1, 12, 2)


def test_what_is_old_enough_may_go() -> None:
    assert aged().clock(EPOCH_MS + 2 * HOUR_MS).find_start(2).broken() == []


def test_young_records_that_go_are_found() -> None:
    assert aged().find_start(0).broken() == []
    assert aged().find_start(2).broken() == ["C22"]


def test_a_clock_that_has_jumped_back_was_late_once() -> None:
    story = aged().clock(EPOCH_MS + 2 * HOUR_MS).clock(EPOCH_MS)
    assert story.find_start(3).broken() == []


def test_a_clock_that_jumps_later_is_no_excuse() -> None:
    assert aged().find_start(2).clock(EPOCH_MS + 2 * HOUR_MS).broken() == ["C22"]


def read() -> Story:
    """Two groups work through a log; one is ahead of the other."""
    story = Story().cleaned(is_compacted=False).retained("read", ["a", "b"])
    return story.work("a", 0).work("b", 0).work("a", 5).work("b", 2)


def test_what_all_have_read_may_go() -> None:
    assert read().find_start(2).find_work("b", 2).find_work("a", 5).broken() == []


def test_what_one_has_not_read_must_stay() -> None:
    assert read().find_start(3).broken() == ["C22"]


def test_a_group_that_falls_back_behind_the_start_is_found() -> None:
    assert read().find_start(2).find_work("b", 1).broken() == ["C22"]


def lively() -> Story:
    """A group with one member, which commits."""
    story = Story().forgets().reconcile("a", 0, [], (1, []))
    return story.commit_as("a", 1, 7).fetch_offset(7)


def test_a_live_group_that_forgets_is_found() -> None:
    assert lively().fetch_offset(-1).reconcile("a", 1, [], (1, None)).broken() == ["G6"]


def test_a_group_that_may_have_been_without_members_may_forget() -> None:
    assert lively().fetch_offset(-1).broken() == []


def test_a_group_that_is_not_to_forget_must_remember() -> None:
    assert Story().commit(7).fetch_offset(-1).broken() == ["C17"]


def test_members_that_take_turns_keep_a_group_alive() -> None:
    story = lively().reconcile("b", 0, [], (2, [])).reconcile("a", 2, [], (2, None))
    story.fetch_offset(-1)
    assert story.reconcile("b", 2, [], (2, None)).broken() == ["G6"]


DAY_MS = 24 * HOUR_MS


def doubting(steady_ms: int) -> Story:
    """The node must see its clock steady for so long before it deletes anything."""
    story = Story()
    story.history.add(0, "info", "steady", value=steady_ms)
    story.clock(EPOCH_MS).cleaned(is_compacted=False).retained("age", HOUR_MS).forgets(HOUR_MS)
    return story.put(1, 10, 0).put(1, 11, 1).commit(7)


def test_a_jump_that_the_node_could_not_believe_yet_is_no_excuse() -> None:
    story = doubting(HOUR_MS).clock(EPOCH_MS + 2 * DAY_MS)
    assert story.find_start(1).broken() == ["C22"]


def test_nor_is_it_for_an_offset() -> None:
    story = doubting(HOUR_MS).clock(EPOCH_MS + 2 * DAY_MS)
    assert story.fetch_offset(-1).broken() == ["G7"]


def test_a_clock_that_is_believed_at_once_is_one() -> None:
    story = doubting(0).clock(EPOCH_MS + 2 * DAY_MS)
    assert story.find_start(1).fetch_offset(-1).broken() == []


def test_an_offset_committed_after_the_jump_is_young() -> None:
    story = doubting(0).clock(EPOCH_MS + 2 * DAY_MS).commit(8)
    assert story.fetch_offset(-1).broken() == ["G7"]

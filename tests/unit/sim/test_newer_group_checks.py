"""The checks of groups of the newer protocol, on histories written by hand."""

from __future__ import annotations

from tests.unit.sim.builder import Story

from tidelog.sim.history import dump, load

ONE, TWO = ("topic", 0), ("topic", 1)


def handed_over() -> Story:
    """`a` has both partitions, gives one up, and only then does `b` get it."""
    story = Story().reconcile("a", 0, [], (1, [ONE, TWO])).reconcile("b", 0, [], (2, []))
    story.reconcile("a", 1, [ONE, TWO], (1, [ONE])).reconcile("b", 2, [], (2, None))
    story.reconcile("a", 1, [ONE], (2, None)).reconcile("b", 2, [], (2, [TWO]))
    return story.reconcile("a", 2, [ONE], (2, None)).reconcile("b", 2, [TWO], (2, None))


def test_a_partition_that_is_handed_over_has_no_findings() -> None:
    assert handed_over().broken() == []


def test_a_newer_groups_history_is_the_same_after_writing_and_reading_it() -> None:
    entries = handed_over().entries
    assert dump(load(dump(entries))) == dump(entries)


def test_a_partition_given_before_it_was_given_up_is_found() -> None:
    story = Story().reconcile("a", 0, [], (1, [ONE])).reconcile("b", 0, [], (2, [ONE]))
    story.reconcile("a", 1, [ONE], (1, None)).reconcile("b", 2, [ONE], (2, None))
    assert story.broken() == ["G2"]


def test_who_was_given_up_owns_nothing_any_more() -> None:
    """`a` is never welcome again: nobody knows how long it had the partition."""
    story = Story().reconcile("a", 0, [], (1, [ONE])).reconcile("b", 0, [], (2, [ONE]))
    assert story.reconcile("b", 2, [ONE], (2, None)).broken() == []


def test_an_answer_that_comes_late_proves_nothing_by_itself() -> None:
    """`a` was given up long before it heard what it had got."""
    story = Story().reconcile("b", 0, [], (2, [ONE])).reconcile("a", 0, [], (1, [ONE]))
    assert story.reconcile("b", 2, [ONE], (2, None)).broken() == []


def test_a_member_that_starts_over_owns_nothing_before() -> None:
    story = Story().reconcile("a", 0, [], (1, [ONE])).reconcile("b", 0, [], (2, [ONE]))
    assert story.reconcile("a", 0, [], (3, [])).broken() == []


def test_an_epoch_that_falls_is_found() -> None:
    assert handed_over().reconcile("a", 2, [ONE], (1, None)).broken() == ["G1"]


def test_a_commit_at_the_epoch_that_was_told_last_is_right() -> None:
    assert handed_over().commit_as("a", 2, 7).broken() == []


def test_a_commit_at_an_older_epoch_is_found() -> None:
    assert handed_over().commit_as("a", 1, 7).broken() == ["G3"]


def test_settings_are_registers() -> None:
    assert Story().describe(-1).alter(5).describe(5).alter(6).describe(6).broken() == []
    assert Story().alter(5).alter(6).describe(5).broken() == ["C17"]

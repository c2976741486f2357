"""The checks of groups: silent on what a coordinator may do, and loud on what it may not."""

from __future__ import annotations

from tests.unit.sim.builder import TP, Story

from tidelog.sim.history import dump, load

OTHER = ("t", 1)


def stable() -> Story:
    """Two members in one generation, then one of them alone in the next."""
    story = Story().join("a", 1).join("b", 1).hand_in(1, [("a", [TP]), ("b", [OTHER])])
    story.sync("b", 1, [OTHER]).sync("a", 1, [TP]).commit(10, gen=1).fetch_offset(10)
    story.join("a", 2).hand_in(2, [("a", [TP, OTHER])]).sync("a", 2, [TP, OTHER])
    return story.commit(11, gen=2).fetch_offset(11)


def test_a_group_that_keeps_its_promises_has_no_findings() -> None:
    assert stable().broken() == []


def test_a_groups_history_is_the_same_after_writing_and_reading_it() -> None:
    entries = stable().entries
    assert dump(load(dump(entries))) == dump(entries)


def test_an_offset_before_the_first_commit_is_nothing() -> None:
    assert Story().fetch_offset(-1).commit(5).fetch_offset(5).broken() == []


def test_an_offset_that_nobody_committed_is_found() -> None:
    assert Story().commit(5).fetch_offset(6).broken() == ["C17"]


def test_an_offset_told_before_its_commit_is_found() -> None:
    assert Story().fetch_offset(5).commit(5).broken() == ["C17"]


def test_a_commit_that_failed_is_never_told() -> None:
    story = Story().invoke_commit(5).end_commit(5, type="fail")
    assert story.fetch_offset(-1).broken() == []
    assert story.fetch_offset(5).broken() == ["C17"]


def test_an_acknowledged_commit_that_was_forgotten_is_found() -> None:
    assert Story().commit(5).fetch_offset(-1).broken() == ["C17"]


def test_an_older_commit_in_the_place_of_a_newer_one_is_found() -> None:
    assert Story().commit(5).commit(6).fetch_offset(5).broken() == ["C17"]


def test_a_commit_to_a_lower_offset_counts_like_any_other() -> None:
    assert Story().commit(6).commit(5).fetch_offset(5).broken() == []


def test_a_commit_under_way_may_be_told_or_not() -> None:
    story = Story().commit(5).invoke_commit(6, proc=50)
    assert story.fetch_offset(5).fetch_offset(6).broken() == []


def test_a_commit_once_told_is_not_taken_back() -> None:
    story = Story().commit(5).invoke_commit(6, proc=50).fetch_offset(6).fetch_offset(5)
    assert story.broken() == ["C17"]


def test_a_lost_commit_may_take_effect_later_but_only_once() -> None:
    story = Story().commit(5).invoke_commit(6, proc=50).end_commit(6, type="info", proc=50)
    story.fetch_offset(5).commit(7).fetch_offset(7).fetch_offset(6)
    assert story.broken() == []
    assert story.fetch_offset(7).broken() == ["C17"]


def test_two_commits_at_once_may_come_in_either_order() -> None:
    story = Story().invoke_commit(5, proc=50).invoke_commit(6, proc=51)
    story.end_commit(5, proc=50).end_commit(6, proc=51)
    assert story.fetch_offset(5).broken() == []


def test_a_generation_that_falls_is_found() -> None:
    assert "G1" in stable().join("a", 1).broken()


def test_a_member_that_lost_its_answer_hears_the_same_generation_again() -> None:
    assert stable().join("a", 2).broken() == []


def test_two_leaders_of_one_generation_are_found() -> None:
    assert stable().join("b", 2, leader="b").broken() == ["G1"]


def test_a_partition_with_two_owners_is_found() -> None:
    story = Story().hand_in(1, [("a", [TP])]).hand_in(1, [("b", [TP])])
    assert story.sync("a", 1, [TP]).broken() == []
    assert story.sync("b", 1, [TP]).broken() == ["G2"]


def test_a_share_that_no_leader_gave_is_found() -> None:
    assert stable().sync("b", 2, [TP]).broken() == ["G2"]


def test_a_share_that_changes_within_a_generation_is_found() -> None:
    story = stable().hand_in(2, [("a", [TP])])
    assert story.sync("a", 2, [TP]).broken() == ["G2"]


def test_a_commit_of_a_generation_that_is_over_is_found() -> None:
    assert stable().commit(12, gen=1).broken() == ["G3"]


def test_a_commit_begun_before_the_next_generation_may_still_succeed() -> None:
    story = Story().join("a", 1).invoke_commit(10, gen=1).join("b", 2).end_commit(10)
    assert story.broken() == []

"""Every checker: silent on a clean history, and loud on one that breaks its property."""

from __future__ import annotations

from tests.unit.sim.builder import TP, Story

from tidelog.sim.checkers import check_history
from tidelog.sim.checkers.view import EARLIEST, LATEST


def clean() -> Story:
    """Three records, sent, read and asked about."""
    story = Story()
    story.send(10, 0, pid=1, ts=100).send(11, 1, pid=1, ts=90).send(12, 2, pid=1, ts=200)
    story.poll(0, [(0, 10), (1, 11)], digests=[(0, 5)]).poll(2, [(2, 12)])
    story.look_up(LATEST, 3).look_up(EARLIEST, 0).look_up(95, 0, timestamp=100)
    return story


def test_a_clean_history_has_no_findings() -> None:
    assert clean().final_reads().broken() == []


def test_two_values_at_one_offset_are_inconsistent() -> None:
    assert "C1" in clean().poll(0, [(0, 11)], proc=20).broken()


def test_a_value_that_nobody_sent_is_a_phantom() -> None:
    assert "C1" in clean().poll(3, [(3, 99)], proc=20).broken()


def test_a_value_read_before_it_was_sent_is_a_phantom() -> None:
    assert "C1" in clean().poll(3, [(3, 13)], proc=20).send(13, 3).broken()


def test_an_idempotent_value_at_two_offsets_is_a_duplicate() -> None:
    story = Story().lose_send(1, pid=4).poll(0, [(0, 1), (1, 1)])
    assert story.broken() == ["C2"]


def test_a_plain_producers_duplicate_is_only_counted() -> None:
    story = Story().lose_send(1).poll(0, [(0, 1), (1, 1)])
    findings, counters = check_history(story.entries)
    assert findings == []
    assert counters["plain duplicates"] == 1


def test_an_acknowledged_value_that_a_reader_has_passed_by_is_lost() -> None:
    story = Story().send(1, 0).send(2, 1).send(3, 2).poll(0, [(0, 1)])
    assert story.broken() == []
    assert "C3" in story.poll(1, [(2, 3)]).broken()


def test_a_value_between_two_readers_is_not_lost() -> None:
    story = Story().send(1, 0).send(2, 1).send(3, 2)
    assert story.poll(0, [(0, 1)], proc=5).poll(2, [(2, 3)], proc=6).broken() == []


def test_an_acknowledged_value_never_read_is_unseen_only_after_the_final_reads() -> None:
    story = Story().send(1, 0).send(2, 1).poll(0, [(0, 1)])
    assert story.broken() == []
    assert story.final_reads().broken() == ["C4"]


def test_a_failed_send_must_leave_nothing_to_read() -> None:
    story = Story().fail_send(1, "MESSAGE_TOO_LARGE").poll(0, [])
    assert story.broken() == []
    assert story.poll(0, [(0, 1)]).broken() == ["C5"]


def test_a_lost_send_may_be_read_or_not() -> None:
    assert Story().lose_send(1).poll(0, []).broken() == []
    assert Story().lose_send(1).poll(0, [(0, 1)]).broken() == []


def test_a_gap_within_a_poll_is_a_skip() -> None:
    story = Story().send(1, 0).send(2, 1).send(3, 2).poll(1, [(1, 2)], proc=8)
    assert "C7" in story.poll(0, [(0, 1), (2, 3)]).broken()


def test_a_gap_between_polls_is_a_skip() -> None:
    story = Story().send(1, 0).send(2, 1).send(3, 2).poll(1, [(1, 2)], proc=8)
    assert story.poll(0, [(0, 1)]).poll(1, [(2, 3)]).broken() == ["C8"]


def test_going_back_between_polls_is_nonmonotonic() -> None:
    story = Story().send(1, 0).send(2, 1)
    assert story.poll(0, [(0, 1), (1, 2)]).poll(2, [(1, 2)]).broken() == ["C8"]


def test_a_producers_sends_lie_in_order() -> None:
    story = Story().invoke_send(1).invoke_send(2).end_send(1, 1).end_send(2, 0)
    assert story.broken() == ["C9"]


def test_what_was_acknowledged_first_lies_first() -> None:
    story = Story().send(1, 5, proc=1).send(2, 4, proc=2)
    assert story.broken() == ["C10"]


def test_concurrent_sends_may_lie_in_any_order() -> None:
    story = Story().invoke_send(1, proc=1).invoke_send(2, proc=2)
    assert story.end_send(1, 1, proc=1).end_send(2, 0, proc=2).broken() == []


def test_the_end_offset_covers_what_was_acknowledged() -> None:
    assert Story().send(1, 0).look_up(LATEST, 0).broken() == ["C11"]


def test_the_end_offset_never_decreases() -> None:
    assert Story().look_up(LATEST, 7).look_up(LATEST, 6).broken() == ["C11"]


def test_a_poll_sees_what_was_acknowledged_before_it() -> None:
    assert Story().send(1, 0).poll(0, []).broken() == ["C12"]
    assert Story().poll(0, []).send(1, 0).broken() == []


def test_a_poll_full_of_other_partitions_may_leave_one_out() -> None:
    story = Story().send(1, 0)
    other = ("t", 1)
    story.history.add(3, "invoke", "send", tp=other, value=2)
    story.history.add(3, "ok", "send", tp=other, value=[0, 2])
    story.history.add(9, "invoke", "poll", value={TP: 0, other: 0})
    story.history.add(9, "ok", "poll", value={TP: [], other: [[0, 2]]})
    assert story.broken() == []


def test_out_of_range_is_said_only_of_what_is_out_of_range() -> None:
    story = Story().send(1, 0)
    assert story.poll_error(5, "OFFSET_OUT_OF_RANGE").broken() == []
    assert story.poll_error(1, "OFFSET_OUT_OF_RANGE").broken() == ["C20"]


def test_an_error_carries_minus_one_and_never_zero() -> None:
    assert Story().fail_send(1, "INVALID_RECORD", offset=0).broken() == ["C20"]
    assert Story().poll_error(0, "KAFKA_STORAGE_ERROR", high_watermark=0).broken() == ["C20"]


def test_a_batch_keeps_its_bytes() -> None:
    story = Story().send(1, 0).poll(0, [(0, 1)], digests=[(0, 5)])
    assert story.broken() == []
    assert story.poll(0, [(0, 1)], proc=10, digests=[(0, 6)]).broken() == ["C21"]


def test_the_log_start_only_moves_forward() -> None:
    assert Story().look_up(EARLIEST, 3).look_up(EARLIEST, 2).broken() == ["C21"]


def test_a_time_is_found_at_its_first_record() -> None:
    story = Story().send(1, 0, ts=100).send(2, 1, ts=50).send(3, 2, ts=150)
    assert story.look_up(60, 0, timestamp=100).look_up(120, 2, timestamp=150).broken() == []
    assert story.look_up(60, 2, timestamp=150).broken() == ["C23"]


def test_a_time_is_found_with_the_records_own_timestamp() -> None:
    assert Story().send(1, 0, ts=100).look_up(60, 0, timestamp=99).broken() == ["C23"]
    assert Story().send(1, 0, ts=100).look_up(120, 0, timestamp=100).broken() == ["C23"]


def test_a_time_that_exists_is_not_called_unknown() -> None:
    assert Story().look_up(60, -1).send(1, 0, ts=100).broken() == []
    assert Story().send(1, 0, ts=100).look_up(60, -1).broken() == ["C23"]


def test_damage_excuses_the_damaged_and_nothing_else() -> None:
    story = Story().send(1, 0).send(2, 1).damage(0, 0)
    assert story.poll(1, [(1, 2)]).final_reads().broken() == []
    story = Story().send(1, 0).send(2, 1).damage(0, 0)
    assert story.poll(2, []).final_reads().broken() == ["C4"]


def test_damaged_records_must_not_be_served() -> None:
    story = Story().send(1, 0).damage(0, 0).poll(0, [(0, 1)])
    assert story.broken() == ["S3"]


def test_after_a_permitted_loss_an_offset_may_get_another_value() -> None:
    story = Story().send(1, 0).poll(0, [(0, 1)]).loss().send(2, 0).poll(0, [(0, 2)], proc=10)
    assert story.final_reads().broken() == []


def test_after_a_permitted_loss_old_values_may_still_be_there() -> None:
    story = Story().send(1, 0).loss().poll(0, [(0, 1)]).send(2, 1).poll(1, [(1, 2)])
    assert story.final_reads().broken() == []


def test_within_the_stretch_after_a_loss_everything_is_checked_again() -> None:
    story = Story().loss().send(1, 0).poll(0, [])
    assert story.broken() == ["C12"]


def test_a_producer_id_is_given_once() -> None:
    story = Story()
    for proc in (1, 2):
        story.history.add(proc, "invoke", "init_pid")
        story.history.add(proc, "ok", "init_pid", pid=5, pepoch=0)
    assert story.broken() == ["T1"]


def test_the_worst_lag_is_reported() -> None:
    story = Story().send(1, 0).look_up(EARLIEST, 0).poll(0, [(0, 1)])
    assert check_history(story.entries)[1]["worst lag ms"] == 4

"""Sequence rules (T2) against the plainest statement of them, and against replay."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.log.logs import a_batch, append, flush, open_log
from tests.unit.log.logs import settings as log_settings

from tidelog.log.log import Appended
from tidelog.model.errors import ErrorCode
from tidelog.model.limits import BATCHES_REMEMBERED
from tidelog.sim.disk import SimDisk

SEQUENCES = 2**31

Send = tuple[int, int, int, int]
"""Producer, epoch, first sequence, records."""

near_the_wrap = st.integers(-12, 12).map(lambda number: number % SEQUENCES)
sends = st.tuples(st.integers(0, 2), st.integers(0, 2), near_the_wrap, st.integers(1, 3))


class Naive:
    """Remembers everything ever accepted."""

    def __init__(self) -> None:
        self.accepted: dict[int, list[tuple[int, int, int, int]]] = {}
        self.end = 0

    def expect(self, send: Send) -> Appended:
        pid, epoch, sequence, count = send
        history = self.accepted.setdefault(pid, [])
        if history and epoch < history[-1][0]:
            return Appended(ErrorCode.INVALID_PRODUCER_EPOCH)
        same_epoch = [entry for entry in history if entry[0] == epoch]
        for _, first, records, base in same_epoch[-BATCHES_REMEMBERED:]:
            if (first, records) == (sequence, count):
                return Appended(ErrorCode.NONE, base, base + count - 1, 0, True)  # type: ignore[arg-type]
        if same_epoch:
            due = (same_epoch[-1][1] + same_epoch[-1][2]) % SEQUENCES
        else:
            due = 0 if history else sequence
        if sequence != due:
            return Appended(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        history.append((epoch, sequence, count, self.end))
        self.end += count
        return Appended(ErrorCode.NONE, self.end - count, self.end - 1, 0)  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 1000),
    script=st.lists(
        st.one_of(sends, st.just("next"), st.just("repeat"), st.just("restart")), max_size=40
    ),
)
def test_every_answer_is_the_rules_and_a_restart_forgets_nothing(
    seed: int, script: list[Send | str]
) -> None:
    disk = SimDisk(Random(seed))
    config = log_settings(segment_bytes=1024)
    log = open_log(disk, config=config)
    naive = Naive()
    sent: list[Send] = []
    for step in script:
        if step == "restart":
            flush(log)
            disk.lose_power()
            log = open_log(disk, config=config)
            continue
        send = _send(step, sent, disk_random=Random(len(sent)))
        sent.append(send)
        pid, epoch, sequence, count = send
        result = append(log, a_batch(count, producer=(pid, epoch, sequence)))
        assert result == naive.expect(send)
    assert log.log_end_offset == naive.end


def _send(step: Send | str, sent: list[Send], disk_random: Random) -> Send:
    """A send of its own, or one that follows on or repeats an earlier one."""
    if isinstance(step, tuple) or not sent:
        return step if isinstance(step, tuple) else (0, 0, SEQUENCES - 3, 2)
    pid, epoch, sequence, count = disk_random.choice(sent[-7:])
    if step == "repeat":
        return pid, epoch, sequence, count
    return pid, epoch, (sequence + count) % SEQUENCES, 2

"""A log against a plain list of batches, through appends, rolls, restarts and power failures."""

from __future__ import annotations

from random import Random

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.stamping import stamp
from tests.unit.log.logs import a_batch, append, flush, open_log, read, settings

from tidelog.log.disk import FileSpan
from tidelog.log.index import Entry
from tidelog.log.log import Log
from tidelog.log.segment_indexes import SegmentIndexes
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_faults import PowerLost
from tidelog.wire.batch import iter_batches
from tidelog.wire.records import decode_records

Row = tuple[int, int, bytes, int]
"""Offset, timestamp, value, epoch of one record."""


class LogMachine(RuleBasedStateMachine):
    """`rows` is what the log must hold; `flushed` how many of them a crash may not take."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Row]] = []
        self.flushed = 0
        self.epoch = 0
        self.serial = 0

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]

    @property
    def end(self) -> int:
        return sum(map(len, self.batches))

    @initialize(seed=st.integers(0, 2**32), interval=st.sampled_from([0, 150, 1000]))
    def begin(self, seed: int, interval: int) -> None:
        self.disk = SimDisk(Random(seed))
        self.config = settings(segment_bytes=1500, index_interval_bytes=interval)
        self.log: Log = open_log(self.disk, config=self.config)

    @rule(
        request=st.lists(
            st.lists(st.integers(-1, 60), min_size=1, max_size=4), min_size=1, max_size=3
        ),
        is_new_epoch=st.booleans(),
    )
    def appends(self, request: list[list[int]], is_new_epoch: bool) -> None:
        self.epoch += is_new_epoch
        made = []
        base = self.end
        for times in request:
            self.serial += 1
            value = b"value %d" % self.serial
            made.append(a_batch(value=value, timestamps=times))
            self.batches.append(
                [(base + n, time, value, self.epoch) for n, time in enumerate(times)]
            )
            base += len(times)
        result = append(self.log, *made, epoch=self.epoch)
        assert result.error is ErrorCode.NONE
        assert (result.base_offset, result.last_offset) == (
            self.end - sum(map(len, request)),
            base - 1,
        )

    @rule(
        request=st.lists(
            st.lists(st.integers(-1, 60), min_size=1, max_size=4), min_size=1, max_size=6
        ),
        is_new_epoch=st.booleans(),
    )
    def appends_replicated(self, request: list[list[int]], is_new_epoch: bool) -> None:
        """As a follower does: with the leader's offsets and epochs, the last of which may be
        new."""
        made = bytearray()
        base = self.end
        for number, times in enumerate(request):
            self.epoch += is_new_epoch and number == len(request) - 1
            self.serial += 1
            value = b"value %d" % self.serial
            batch = a_batch(value=value, timestamps=times)
            stamp(batch, Offset(base), LeaderEpoch(self.epoch))
            made += batch
            self.batches.append(
                [(base + n, time, value, self.epoch) for n, time in enumerate(times)]
            )
            base += len(times)
        result = self.log.append_replicated(
            memoryview(bytes(made)), leader_epoch=LeaderEpoch(self.epoch), now_ms=1000
        )
        assert (result.error, result.last_offset) == (ErrorCode.NONE, base - 1)

    def truncates_under_way(self) -> None:
        """What may be cut may be lost, from the moment that it begins."""
        offset = self.end * 2 // 3
        kept = [batch for batch in self.batches if batch[-1][0] < offset]
        self.flushed = min(self.flushed, sum(map(len, kept)))
        self.log.truncate_to(Offset(offset))
        self._cut_to(offset)

    @rule()
    def rolls(self) -> None:
        if self.log._active.size:
            self.log.roll()

    @rule()
    def flushes(self) -> None:
        flush(self.log)
        self.flushed = self.end
        assert self.log.flushed_offset == self.end

    @rule()
    def checkpoints(self) -> None:
        self.log.checkpoint()

    @rule()
    def restarts_cleanly(self) -> None:
        self.log.close_cleanly()
        self.disk.lose_power()
        self.log = open_log(self.disk, clean=True, config=self.config)
        self.flushed = self.end

    @rule()
    def is_killed(self) -> None:
        self.disk.lose_process()
        self.log = open_log(self.disk, config=self.config)
        assert self.log.log_end_offset == self.end
        self.flushed = self.end

    @rule()
    def loses_power(self) -> None:
        self.disk.lose_power()
        self.log = open_log(self.disk, config=self.config)
        kept = self.log.log_end_offset
        assert self.flushed <= kept <= self.end
        self._cut_to(kept)
        assert self.end == kept
        self.flushed = kept

    @rule(
        changes=st.integers(0, 25),
        steps=st.lists(
            st.sampled_from(
                ["append", "replicate", "flush", "checkpoint", "roll", "close", "truncate"]
            )
        ),
        is_opening_hit=st.booleans(),
    )
    def loses_power_at_work(self, changes: int, steps: list[str], is_opening_hit: bool) -> None:
        """Between any two changes of the disk, and then perhaps again while recovering."""
        work = {
            "append": lambda: self.appends([[1, 2], [3]], is_new_epoch=False),
            "replicate": lambda: self.appends_replicated([[1, 2], [3]], is_new_epoch=True),
            "truncate": self.truncates_under_way,
            "flush": self.flushes,
            "checkpoint": self.checkpoints,
            "roll": self.rolls,
            "close": self.log.close_cleanly,
        }
        self.disk.faults.changes_left = changes
        try:
            for step in steps:
                work[step]()
        except PowerLost:
            pass
        self.disk.lose_power()
        self.disk.faults.changes_left = changes if is_opening_hit else None
        try:
            open_log(self.disk, config=self.config)
        except PowerLost:
            pass
        self.disk.faults.changes_left = None
        self.loses_power()

    @rule()
    def rebuilds_indexes(self) -> None:
        """They are a function of the log (S6)."""
        for segment in self.log._segments:
            segment.indexes.load_timestamps()
            before = _entries(segment.indexes)
            segment.indexes.rebuild()
            assert _entries(segment.indexes) == before
            for file in segment.indexes.files():
                file.sync()

    @precondition(lambda self: self.end > 0)
    @rule(data=st.data())
    def truncates(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        self.log.truncate_to(Offset(offset))
        self._cut_to(offset)
        self.flushed = min(self.flushed, self.end)

    def _cut_to(self, end: int) -> None:
        while self.batches and self.batches[-1][-1][0] >= end:
            self.batches.pop()

    @precondition(lambda self: self.end > 0)
    @rule(data=st.data(), max_bytes=st.integers(1, 3000), at_least_one=st.booleans())
    def reads(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        ends = [batch[-1][0] + 1 for batch in self.batches]
        limit = data.draw(st.sampled_from(ends))
        offset = data.draw(st.integers(0, limit - 1))
        span = self.log.read(
            Offset(offset),
            max_bytes=max_bytes,
            limit_offset=Offset(limit),
            at_least_one=at_least_one,
        )
        assert span is not None or not at_least_one
        if span is None:
            return
        assert isinstance(span, FileSpan)
        batches = list(iter_batches(memoryview(span.read())))
        assert span.size <= max_bytes or (len(batches) == 1 and at_least_one)
        assert batches[0][0].base_offset <= offset <= batches[0][0].last_offset
        assert batches[-1][0].next_offset <= limit
        got = [
            (record.offset, record.timestamp, record.value, header.leader_epoch)
            for header, batch in batches
            for record in decode_records(batch, 1 << 20)
        ]
        first = batches[0][0].base_offset
        assert got == self.rows[first : first + len(got)]

    @rule(asked=st.integers(-1, 70))
    def looks_up(self, asked: int) -> None:
        found = self.log.offset_for_timestamp(asked)
        expected = next((row for row in self.rows if row[1] >= max(asked, -1)), None)
        if expected is None:
            assert found is None
        elif asked >= 0:
            assert found == (expected[0], expected[1], expected[3])

    @rule()
    def looks_for_the_latest(self) -> None:
        found = self.log.max_timestamp()
        largest = max((row[1] for row in self.rows), default=-1)
        if largest == -1:
            assert found is None
        else:
            assert found == next((r[0], r[1], r[3]) for r in self.rows if r[1] == largest)

    @rule(asked=st.integers(0, 40))
    def asks_for_an_epoch(self, asked: int) -> None:
        below = [row for row in self.rows if row[3] <= asked]
        above = [row for row in self.rows if row[3] > asked]
        answer = self.log.epoch_end_offset(LeaderEpoch(asked))
        if below:
            assert answer == (below[-1][3], above[0][0] if above else self.end)
        elif above:
            assert answer == (asked, above[0][0])
        else:
            assert answer == (-1, -1)

    @invariant()
    def is_whole(self) -> None:
        if hasattr(self, "log"):
            self.log.validate()
            assert self.log.log_end_offset == self.end
            assert read(self.log, self.end) is None
            assert read(self.log, self.end + 1) is ErrorCode.OFFSET_OUT_OF_RANGE
            assert not [damage for damage in self.log.damage if damage.kind != "cut"]


def _entries(indexes: SegmentIndexes) -> tuple[list[Entry], list[Entry]]:
    index, times = indexes.index, indexes.time_index
    return [index.entry(n) for n in range(len(index))], [times.entry(n) for n in range(len(times))]


LogMachine.TestCase.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestLogAgainstAList = LogMachine.TestCase

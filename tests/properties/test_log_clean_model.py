"""A log that cleans itself against a plain list of records, through restarts and power failures.

C22 and C21: the latest record of each key stays readable at its offset, order and bytes unchanged;
a tombstone stays for its time and hides older records for ever; nothing in the active segment is
touched; the start never moves back, and nothing below it is readable.
"""

from __future__ import annotations

from random import Random

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.log.cleaning import compacted, keyed, records_of
from tests.unit.log.logs import append, flush, open_log, read

from tidelog.log.cleaner import Cleaning
from tidelog.log.log import Log
from tidelog.log.state import restore_producers
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.sim.disk import SimDisk
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record

DELETE_RETENTION_MS = 1000
KEYS = [b"a", b"b", b"c", b"a key that is longer than sixteen bytes", b""]


class CleaningMachine(RuleBasedStateMachine):
    """`rows` is all that was appended and not lost; `flushed` what a crash may not take."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Record] = []
        self.appended_ms: list[int] = []
        self.ends: list[int] = [0]
        self.flushed = 0
        self.epoch = 0
        self.serial = 0
        self.sequences = {1: 0, 2: 0}
        self.start = 0
        self.now_ms = 100_000
        self.cleaning: Cleaning | None = None

    @initialize(
        seed=st.integers(0, 2**32),
        interval=st.sampled_from([0, 150, 1000]),
        buffer_bytes=st.sampled_from([1, 500, 1 << 20]),
        policy=st.sampled_from(["compact", "compact,delete"]),
    )
    def begin(self, seed: int, interval: int, buffer_bytes: int, policy: str) -> None:
        self.disk = SimDisk(Random(seed))
        self.buffer_bytes = buffer_bytes
        self.config = compacted(
            segment_bytes=700,
            index_interval_bytes=interval,
            cleanup_policy=policy,
            delete_retention_ms=DELETE_RETENTION_MS,
            retention_ms=100_000,
            retention_bytes=4000,
        )
        self.log: Log = open_log(self.disk, config=self.config)

    # --- what happens ---------------------------------------------------------------------------

    @rule(
        pairs=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=4),
        codec=st.sampled_from(Compression),
        pid=st.sampled_from([-1, 1, 2]),
        age_ms=st.integers(-50, 50),
        is_new_epoch=st.booleans(),
    )
    def appends(
        self,
        pairs: list[tuple[bytes, bool]],
        codec: Compression,
        pid: int,
        age_ms: int,
        is_new_epoch: bool,
    ) -> None:
        self.epoch += is_new_epoch
        base = self.ends[-1]
        records = []
        for number, (key, is_tombstone) in enumerate(pairs):
            self.serial += 1
            value = None if is_tombstone else b"value %d" % self.serial
            records.append(Record(base + number, self.now_ms - age_ms + number, key, value))
        producer = (pid, 0, self.sequences[pid]) if pid > 0 else (-1, -1, -1)
        batch = keyed(
            [(record.key, record.value) for record in records],
            timestamps=[record.timestamp for record in records],
            compression=codec,
            producer=producer,
        )
        result = append(self.log, batch, epoch=self.epoch, now_ms=self.now_ms)
        assert (result.error, result.base_offset) == (ErrorCode.NONE, base)
        if pid > 0:
            self.sequences[pid] += len(pairs)
        self.rows += records
        self.appended_ms += [self.now_ms] * len(records)
        self.ends.append(base + len(records))

    @rule(data=st.data(), batches=st.integers(2, 10), codec=st.sampled_from(Compression))
    def fills_segments(self, data: st.DataObject, batches: int, codec: Compression) -> None:
        for _ in range(batches):
            pair = st.tuples(st.sampled_from(KEYS), st.booleans())
            self.appends(
                pairs=data.draw(st.lists(pair, min_size=1, max_size=3)),
                codec=codec,
                pid=data.draw(st.sampled_from([-1, 1])),
                age_ms=0,
                is_new_epoch=False,
            )
        self.rolls()
        self.flushes()

    @rule(passed_ms=st.integers(1, 1500))
    def waits(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def rolls(self) -> None:
        if self.log._active.size:
            self.log.roll()

    @rule()
    def flushes(self) -> None:
        flush(self.log)
        self.flushed = self.ends[-1]

    @rule()
    def checkpoints(self) -> None:
        self.log.checkpoint()

    @rule(steps=st.sampled_from([1, 3, 9, 50]), budget=st.sampled_from([1, 300, 1 << 20]))
    def cleans(self, steps: int, budget: int) -> None:
        if self.cleaning is None:
            limit = Offset(self.flushed)
            if self.log.cleanable(self.now_ms, limit) is None:
                return
            self.cleaning = Cleaning(self.log, limit_offset=limit, buffer_bytes=self.buffer_bytes)
        for _ in range(steps):
            if self.cleaning.step(self.now_ms, budget):
                self.cleaning = None
                return
            if self.cleaning.waits_for_flush:
                self.flushes()

    @rule()
    def gives_up_cleaning(self) -> None:
        if self.cleaning is not None:
            self.cleaning.abort()
            self.cleaning = None
            self.flushed = max(self.flushed, self.log.flushed_offset)

    @precondition(lambda self: self.ends[-1] > 0)
    @rule(data=st.data())
    def begins_later(self, data: st.DataObject) -> None:
        self.log.advance_start(Offset(data.draw(st.integers(0, self.ends[-1]))))

    @rule()
    def lets_go(self) -> None:
        self.log.apply_retention(self.now_ms)

    # --- restarts -------------------------------------------------------------------------------

    @rule()
    def restarts_cleanly(self) -> None:
        self.log.close_cleanly()
        self.disk.lose_power()
        self._opens(clean=True)
        self.flushed = self.ends[-1]

    @rule()
    def is_killed(self) -> None:
        self.disk.lose_process()
        self._opens(clean=False)
        assert self.log.log_end_offset == self.ends[-1]
        self.flushed = self.ends[-1]

    @rule(changes=st.one_of(st.none(), st.integers(0, 20)))
    def loses_power(self, changes: int | None) -> None:
        self.disk.lose_power()
        self._opens(clean=False)
        kept = self.log.log_end_offset
        assert self.flushed <= kept
        while self.ends[-1] > kept:
            self.ends.pop()
        assert self.ends[-1] == kept
        del self.rows[kept:], self.appended_ms[kept:]
        for pid in self.sequences:
            self.sequences[pid] = self._next_sequence(pid)
        self.flushed = kept

    def _opens(self, *, clean: bool) -> None:
        self.cleaning = None
        self.log = open_log(self.disk, clean=clean, config=self.config)

    def _next_sequence(self, pid: int) -> int:
        views = [one for one in self.log.producers.describe() if one.producer_id == pid]
        return views[0].last_sequence + 1 if views else 0

    # --- what must hold -------------------------------------------------------------------------

    @invariant()
    def is_whole(self) -> None:
        if not hasattr(self, "log"):
            return
        self.log.validate()
        assert self.log.log_end_offset == self.ends[-1]
        assert not [damage for damage in self.log.damage if damage.kind != "cut"]
        assert self.log.log_start_offset >= self.start, "the start has moved back"
        self.start = self.log.log_start_offset
        if self.start:
            assert read(self.log, self.start - 1) is ErrorCode.OFFSET_OUT_OF_RANGE

    @invariant()
    def serves_what_it_must(self) -> None:
        if not hasattr(self, "log"):
            return
        served = records_of(self.log)
        assert [record.offset for record in served] == sorted({one.offset for one in served})
        assert all(record == self.rows[record.offset] for record in served)
        assert all(record.offset >= self.start for record in served)
        offsets = {record.offset for record in served}
        active = range(max(self.start, self.log._active.base_offset), self.ends[-1])
        assert offsets.issuperset(active), "the active segment was touched"
        last = {record.key: record for record in self.rows}
        for record in last.values():
            if record.offset in offsets or record.offset < self.start:
                continue
            assert record.value is None, f"the latest of {record.key!r} is gone"
            age_ms = self.now_ms - self.appended_ms[record.offset]
            assert age_ms >= DELETE_RETENTION_MS, f"the tombstone of {record.key!r} went too soon"
            assert record.key not in {one.key for one in served}, "a deleted key has come back"

    @rule(asked_ms=st.integers(-200, 200))
    def looks_up(self, asked_ms: int) -> None:
        timestamp = self.now_ms + asked_ms
        found = self.log.offset_for_timestamp(timestamp)
        served = [record for record in records_of(self.log) if record.timestamp >= timestamp]
        assert (found.offset if found else None) == (served[0].offset if served else None)

    @rule()
    def looks_for_the_latest(self) -> None:
        found = self.log.max_timestamp()
        served = records_of(self.log)
        if not served:
            assert found is None
        else:
            expected = max(served, key=lambda record: (record.timestamp, -record.offset))
            assert found is not None
            assert found[:2] == (expected.offset, expected.timestamp)

    @rule()
    def knows_its_producers_from_the_log_alone(self) -> None:
        """S6. Those whose batches have all gone with old segments are the exception."""
        for path in [path for path in self.disk.files() if path.endswith(".snapshot")]:
            self.disk.delete(path)
        rebuilt, _ = restore_producers(
            self.log.directory, self.log._segments, self.log.log_end_offset
        )
        known = {view.producer_id: view.last_sequence for view in self.log.producers.describe()}
        for view in rebuilt.describe():
            assert known[view.producer_id] == view.last_sequence
        if self.start == 0:
            assert rebuilt == self.log.producers


CleaningMachine.TestCase.settings = hypothesis_settings(
    max_examples=100, stateful_step_count=40, deadline=None
)
TestCleaningAgainstAList = CleaningMachine.TestCase

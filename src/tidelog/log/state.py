"""What a log is made from, and how it is had from files that can be trusted.

After a clean stop the mark says where the log ends, and nothing is looked at: what does not agree
with the mark is had again from the log, and if the log itself does not, recovery has to look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.log.directory import PartitionDirectory
from tidelog.log.disk import Syncable
from tidelog.log.marks import Mark
from tidelog.log.producers import Producers
from tidelog.log.segment import Segment
from tidelog.model.safeguards import Safeguard
from tidelog.wire.batch import BatchHeader


@dataclass(slots=True)
class LogState:
    """What a log is made from. `dirty` must be synced before anything in it is durable."""

    segments: list[Segment]
    producers: Producers
    log_start_offset: int
    flushed_offset: int
    mark: Mark | None = None
    is_clean: bool = False
    bytes_since_snapshot: int = 0
    dirty: list[Syncable] = field(default_factory=list)
    doomed: list[int] = field(default_factory=list)
    """Segments, by base, that lie wholly below the start: still there, not part of the log."""
    may_lack_records: bool = False
    """Recovery cut off whole batches: it is not certain that nobody was told they were durable."""


def create(home: PartitionDirectory) -> LogState:
    home.create()
    home.mark_file.create()
    first = home.create_segment(0)
    return LogState([first], Producers(), 0, 0, dirty=home.all_entries())


def load_clean(home: PartitionDirectory, bases: list[int], mark: Mark) -> LogState | None:
    """None if the files are not as the mark says."""
    if not bases or bases[-1] != mark.segment_base or bases[0] > mark.log_start_offset:
        return None
    segments = open_segments(home, bases, mark.flushed_offset)
    segments[-1].indexes.is_active = True
    segments[-1].indexes.expected_entries = (mark.index_entries, mark.time_index_entries)
    if segments[-1].size != mark.position:
        return None
    is_known = home.load_epochs()
    home.epochs.cut(mark.flushed_offset)
    if not is_known or home.epochs.checksum(mark.flushed_offset) != mark.epochs_checksum:
        rebuild_epochs(home, segments)
    producers, since_snapshot = restore_producers(home, segments, mark.flushed_offset)
    home.mark_file.is_settled = True
    return LogState(
        segments,
        producers,
        mark.log_start_offset,
        mark.flushed_offset,
        mark=mark,
        is_clean=True,
        bytes_since_snapshot=since_snapshot,
    )


def open_segments(home: PartitionDirectory, bases: list[int], end_offset: int) -> list[Segment]:
    """Each is taken to end where the next begins, the last at `end_offset`."""
    ends = [*bases[1:], end_offset]
    return [home.open_segment(base, end_offset=end) for base, end in zip(bases, ends, strict=True)]


def restore_producers(
    home: PartitionDirectory,
    segments: list[Segment],
    end_offset: int,
    *,
    former: Producers | None = None,
) -> tuple[Producers, int]:
    """The producers as of `end_offset`, and how many bytes of log had to be replayed for it.
    `former` knew those of a log that was longer."""
    if Safeguard.PRODUCER_STATE_RESTORE not in home.safeguards:
        return Producers(), 0
    producers, offset = home.load_producers(end_offset)
    due = max(offset, segments[0].base_offset)
    replayed = 0
    for segment in segments:
        if segment.end_offset <= offset:
            continue
        for _, header in segment.indexes.walk_from_offset(max(offset, segment.base_offset)):
            if header.base_offset > due:
                producers.lost_sight()
            producers.note(header, header.base_offset)
            replayed += header.size
            due = header.next_offset
    if due < end_offset:
        producers.lost_sight()
    if former is not None:
        producers.owe_lost(former)
    return producers, replayed


def rebuild_epochs(home: PartitionDirectory, segments: list[Segment]) -> None:
    """From the headers. Epochs never fall: where one falls in the next batch, the batch that raised
    it is wrong, and counts for nothing."""
    epochs = home.epochs
    epochs.cut(0)
    raised: BatchHeader | None = None
    for header in _epochs_of(segments):
        if raised is not None and header.leader_epoch >= raised.leader_epoch:
            epochs.note(raised.leader_epoch, raised.base_offset)
        raised = header if header.leader_epoch > epochs.latest else None
    if raised is not None:
        epochs.note(raised.leader_epoch, raised.base_offset)
    epochs.is_changed = True


def _epochs_of(segments: list[Segment]) -> Iterator[BatchHeader]:
    """Headers in which an epoch may begin. A segment that begins with the epoch its successor
    begins with need not be walked, if both headers are where they should be."""
    firsts = [_first_header(segment) for segment in segments]
    for segment, first, following in zip(segments, firsts, [*firsts[1:], None], strict=True):
        if first and following and first.leader_epoch == following.leader_epoch:
            yield first
        else:
            for _, header in segment.walk(0, segment.base_offset):
                yield header


def _first_header(segment: Segment) -> BatchHeader | None:
    header = segment.header_at(0)
    return header if header and header.base_offset == segment.base_offset else None

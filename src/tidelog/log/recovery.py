"""From files to a log: what to believe after a clean stop, and after a crash.

After a clean stop the mark says where the log ends, and nothing is looked at. After a crash:

- Below the mark everything was synced. It is not scanned (only each segment's end is found); what
  turns out to be unreadable there is damage: kept, reported, stepped over, never cut. The log never
  ends below the mark, so that no acknowledged offset is given out twice.
- Above the mark anything may be lost, torn or out of order. It is scanned batch by batch; the first
  that is unreadable or out of place ends the log, and all from there on is cut. If whole batches lie
  beyond the cut, the bytes are kept aside in a `.torn` file first: they are evidence.
- The cut is made in an order that a second crash can't spoil: later segments go first and the
  directory is synced, then the file is cut, then the mark is moved. What remains is synced.
- Indexes, producers and epochs are functions of the log: taken from their files as far as those can
  be trusted, and redone from batch headers from there on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.log import scan
from tidelog.log.damage import Damage
from tidelog.log.directory import PartitionDirectory
from tidelog.log.disk import Syncable
from tidelog.log.marks import Mark
from tidelog.log.paths import LOG, offset_path
from tidelog.log.producers import Producers
from tidelog.log.segment import MAX_RELATIVE_OFFSET, Segment
from tidelog.model.safeguards import Safeguard

_COPY_BYTES = 1024 * 1024


@dataclass(slots=True)
class LogState:
    """What a log is made from. `dirty`: still to be synced before anything may be called durable."""

    segments: list[Segment]
    producers: Producers
    log_start_offset: int
    flushed_offset: int
    mark: Mark | None = None
    is_clean: bool = False
    bytes_since_snapshot: int = 0
    dirty: list[Syncable] = field(default_factory=list)


def load(home: PartitionDirectory, *, clean: bool) -> LogState:
    """The state of the log in `home`, which is created if there is none."""
    bases = home.segment_bases()
    mark = home.mark_file.load()
    if not bases and mark is None:
        return _create(home)
    if clean and mark is not None and mark.is_clean:
        state = _load_clean(home, bases, mark)
        if state is not None:
            return state
    return _Recovery(home, bases, mark).run()


def _create(home: PartitionDirectory) -> LogState:
    home.create()
    first = home.create_segment(0)
    return LogState([first], Producers(), 0, 0, dirty=home.all_entries())


def _load_clean(home: PartitionDirectory, bases: list[int], mark: Mark) -> LogState | None:
    """None if the files are not as the mark says."""
    if not bases or bases[-1] != mark.segment_base or bases[0] > mark.log_start_offset:
        return None
    segments = open_segments(home, bases, mark.flushed_offset)
    segments[-1].is_active = True
    if segments[-1].size != mark.position:
        return None
    is_known = home.load_epochs()
    if not is_known or home.epochs.checksum(mark.flushed_offset) != mark.epochs_checksum:
        rebuild_epochs(home, segments)
    producers, since_snapshot = restore_producers(home, segments, mark.flushed_offset)
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
    return [
        home.open_segment(base, end_offset=end) for base, end in zip(bases, ends, strict=True)
    ]


def restore_producers(
    home: PartitionDirectory, segments: list[Segment], end_offset: int
) -> tuple[Producers, int]:
    """The producers as of `end_offset`, and how many bytes of log had to be replayed for it."""
    if Safeguard.PRODUCER_STATE_RESTORE not in home.safeguards:
        return Producers(), 0
    producers, offset = home.load_producers(end_offset)
    replayed = 0
    for segment in segments:
        if segment.end_offset <= offset:
            continue
        for _, header in segment.walk_from_offset(max(offset, segment.base_offset)):
            producers.note(header, header.base_offset)
            replayed += header.size
    return producers, replayed


def rebuild_epochs(home: PartitionDirectory, segments: list[Segment]) -> None:
    """From the headers. Epochs never fall, so a segment that begins with the epoch its successor
    begins with need not be walked."""
    home.epochs.cut(0)
    firsts = [segment.header_at(0) for segment in segments]
    for segment, first, following in zip(segments, firsts, [*firsts[1:], None], strict=True):
        if first is not None and following is not None:
            if first.leader_epoch == following.leader_epoch:
                home.epochs.note(first.leader_epoch, first.base_offset)
                continue
        for _, header in segment.walk(0, segment.base_offset):
            home.epochs.note(header.leader_epoch, header.base_offset)
    home.epochs.is_changed = True


class _Recovery:
    """One recovery, start to end. `due`: the offset that must come next."""

    def __init__(self, home: PartitionDirectory, bases: list[int], mark: Mark | None) -> None:
        self.home = home
        self.bases = bases
        self.mark = mark
        self.kept: list[Segment] = []
        self.due = 0
        self.changed: list[Segment] = []

    def run(self) -> LogState:
        raise NotImplementedError

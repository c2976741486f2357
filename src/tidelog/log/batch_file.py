"""A file of record batches back to back, walked by their headers, with what is wrong with it.

Where the file is unreadable there is a *hole*: reported once, kept on disk, stepped over. Bytes
behind the last batch of a closed file are none: they can't hold a record of the log, whatever they
look like. They are reported once, and from then on the file counts as ending before them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from tidelog.log import scan
from tidelog.log.damage import Damage, DamageKind, Holes
from tidelog.log.disk import File
from tidelog.wire.batch import HEADER_BYTES, BatchHeader, read_header


class Place(NamedTuple):
    """How far a check of a file has come: up to `position`, where the offset `due` begins. If that
    is damaged and the next sound batch is being sought, it is none of those before `sought_to`."""

    position: int
    due: int
    sought_to: int = 0

    @property
    def reached(self) -> int:
        return max(self.position, self.sought_to)


class BatchFile:
    """`size` bytes holding the offsets from `base_offset` up to `end_offset`."""

    def __init__(
        self, file: File, *, base_offset: int, end_offset: int, reports: list[Damage]
    ) -> None:
        self.file = file
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.size = file.size()
        self.holes = Holes()
        self.reports = reports

    def cut(self, position: int, end_offset: int) -> None:
        """Keep the bytes before `position`, a batch's begin, where `end_offset` is due."""
        self.file.truncate(position)
        self.size, self.end_offset = position, end_offset
        self.holes.cut(position)

    def header_at(self, position: int) -> BatchHeader | None:
        """The header at `position`, if one can be there."""
        if not 0 <= position <= self.size - HEADER_BYTES:
            return None
        data = self.file.read(position, HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            return None
        header = read_header(data)
        return header if scan.is_plausible(header, self.size - position) else None

    def torn_header_at(self, position: int) -> BatchHeader | None:
        """A header, even if the file ends before its batch does."""
        data = self.file.read(position, HEADER_BYTES)
        return read_header(data) if len(data) == HEADER_BYTES else None

    def walk(self, position: int, expected_offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position`, where `expected_offset` is due.

        Steps over holes; what turns out to be unreadable becomes one.
        """
        if position < self.size and self.is_beyond(expected_offset):
            self.disregard_tail(position)
        while position < self.size:
            hole = self.holes.first_from(position) if self.holes else None
            stop, due = (hole.position, hole.first_offset) if hole else (self.size, self.end_offset)
            wrong = yield from self._stretch(position, expected_offset, stop, due)
            if wrong is not None:
                hole = self.quarantine(*wrong, "no readable batch header")
            if hole is None:
                return
            position, expected_offset = hole.end_position, hole.next_offset

    def _stretch(
        self, position: int, expected_offset: int, stop: int, due_at_stop: int
    ) -> Generator[tuple[int, BatchHeader], None, tuple[int, int] | None]:
        """Batches up to `stop`, as far as they fit together; then where one is wrong, if it is.

        A header is believed when what follows agrees with it; if not, the checksum tells which of
        the two is wrong. So each is held back until the next has been seen.
        """
        held: BatchHeader | None = None
        for at, header in scan.walk(self.file, position, stop):
            if held is not None:
                is_agreed = header is not None and header.base_offset == held.next_offset
                if not is_agreed and not scan.is_intact(self.file, position, held):
                    return position, expected_offset
                yield position, held
                position, expected_offset = at, held.next_offset
            if self.is_beyond(expected_offset):
                return at, expected_offset
            if header is None or header.base_offset != expected_offset:
                return at, expected_offset
            held = header
        if held is not None:
            is_agreed = held.next_offset == due_at_stop
            if not is_agreed and not scan.is_intact(self.file, position, held):
                return position, expected_offset
            yield position, held
        return None

    def is_beyond(self, expected_offset: int) -> bool:
        """Where this offset is due, the file's last batch has ended."""
        return expected_offset >= self.end_offset

    def disregard_tail(self, position: int) -> Damage:
        """What begins at `position`, behind the last batch, is no part of the log."""
        bounds, offsets = (position, self.size), (self.end_offset, self.end_offset)
        reason = "extra bytes after the segment's last batch; no records affected"
        tail = Damage("quarantined", self.file.path, *bounds, *offsets, reason)
        self.reports.append(tail)
        self.size = position
        return tail

    def quarantine(self, position: int, expected_offset: int, reason: str) -> Damage:
        """What begins at `position`, where the offset is due, is wrong: a hole up to the next
        batch that is right."""
        found: Damage | Place = Place(position, expected_offset)
        while isinstance(found, Place):
            found = self.quarantine_part(found, reason, max_bytes=scan.CHECKED_CHUNK_BYTES)
        return found

    def quarantine_part(self, place: Place, reason: str, *, max_bytes: int) -> Damage | Place:
        """A part of it, for those who can't wait: the rest of a large file may have to be searched.
        If about `max_bytes` were not enough, where to go on."""
        position, due, sought_to = place
        if self.is_beyond(due):
            return self.disregard_tail(position)
        after = None if sought_to else self._after_header(position, due)
        if after is None:
            start = max(sought_to, position + 1)
            at, header = scan.seek_batch(
                self.file, start, self.size, low=due + 1, high=self.end_offset, max_bytes=max_bytes
            )
            if header is None and at < self.size:
                return place._replace(sought_to=at)
            after = (at, header.base_offset) if header else (self.size, self.end_offset)
        return self.add_hole("quarantined", (position, after[0]), (due, after[1]), reason)

    def report_missing_tail(self, first_offset: int) -> None:
        """The file ends before `end_offset`, at `first_offset`: told once, however often it is
        met."""
        if self.holes.with_offset(first_offset) is not None:
            return
        bounds, offsets = (self.size, self.size), (first_offset, self.end_offset)
        self.add_hole("missing", bounds, offsets, "the file is shorter than it was")

    def add_hole(
        self, kind: DamageKind, bounds: tuple[int, int], offsets: tuple[int, int], reason: str
    ) -> Damage:
        """From now on these bytes are stepped over."""
        hole = Damage(kind, self.file.path, *bounds, *offsets, reason)
        self.holes.add(hole)
        self.reports.append(hole)
        return hole

    def _after_header(self, position: int, expected_offset: int) -> tuple[int, int] | None:
        """Behind the batch, if its header makes sense together with what follows."""
        header = self.header_at(position)
        if (
            header is not None
            and header.base_offset == expected_offset
            and header.next_offset <= self.end_offset
        ):
            end, next_offset = position + header.size, header.next_offset
            following = self.header_at(end)
            is_last = end == self.size and next_offset == self.end_offset
            if is_last or (following is not None and following.base_offset == next_offset):
                return end, next_offset
        return None

"""A file of record batches back to back, walked by their headers, with what is wrong with it.

Where the file is unreadable there is a *hole*: reported once, kept on disk, stepped over.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from tidelog.log import scan
from tidelog.log.damage import Damage, DamageKind, Holes
from tidelog.log.disk import File
from tidelog.wire.batch import HEADER_BYTES, BatchHeader, read_header


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
        self._reports = reports

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
            if header is None or header.base_offset != expected_offset:
                return at, expected_offset
            held = header
        if held is not None:
            is_agreed = held.next_offset == due_at_stop
            if not is_agreed and not scan.is_intact(self.file, position, held):
                return position, expected_offset
            yield position, held
        return None

    def quarantine(self, position: int, expected_offset: int, reason: str) -> Damage:
        """What begins at `position`, where the offset is due, is wrong: a hole up to the next
        batch that is right."""
        end, next_offset = self._after_damage(position, expected_offset)
        bounds, offsets = (position, end), (expected_offset, next_offset)
        return self._report("quarantined", bounds, offsets, reason)

    def report_missing_tail(self, first_offset: int) -> None:
        """The file ends before `end_offset`, at `first_offset`."""
        bounds, offsets = (self.size, self.size), (first_offset, self.end_offset)
        self._report("missing", bounds, offsets, "the file is shorter than it was")

    def _report(
        self, kind: DamageKind, bounds: tuple[int, int], offsets: tuple[int, int], reason: str
    ) -> Damage:
        hole = Damage(kind, self.file.path, *bounds, *offsets, reason)
        self.holes.add(hole)
        self._reports.append(hole)
        return hole

    def _after_damage(self, position: int, expected_offset: int) -> tuple[int, int]:
        """The header, if it makes sense together with what follows, else a search."""
        header = self.header_at(position)
        if header is not None and header.base_offset == expected_offset:
            end, next_offset = position + header.size, header.next_offset
            following = self.header_at(end)
            is_last = end == self.size and next_offset == self.end_offset
            if is_last or (following is not None and following.base_offset == next_offset):
                return end, next_offset
        found = scan.find_batch(
            self.file, position + 1, self.size, low=expected_offset + 1, high=self.end_offset
        )
        return (found[0], found[1].base_offset) if found else (self.size, self.end_offset)

"""The metadata log: decisions in, committed records out, in order.

One decision is one record batch, so a crash keeps all of its records or none. With one voter, a
record is committed when it is flushed; the node hears of it through `take_committed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from tidelog.log.disk import Disk
from tidelog.log.log import FlushTicket, Log
from tidelog.log.recovery import FlushedRecordsDamaged
from tidelog.metadata.records import MetadataRecord, decode_record, encode_record
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import topic_settings
from tidelog.wire.batch import iter_batches
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Record, decode_records, encode_batch

DIRECTORY = "metadata"
_EPOCH = LeaderEpoch(0)
_MAX_BATCH_BYTES = 2**30
_READ_BYTES = 1 << 20
_SETTINGS = topic_settings({"max.message.bytes": _MAX_BATCH_BYTES, "records.validation": "header"})


def open_metadata_log(
    disk: Disk,
    *,
    clean: bool,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    refuses_damage: bool = False,
) -> Log:
    """`refuses_damage`: see `recovery.load`."""
    return Log.open(
        disk,
        DIRECTORY,
        _SETTINGS,
        clean=clean,
        safeguards=safeguards,
        refuses_damage=refuses_damage,
    )


class NotController(Exception):
    """A decision was to be written by a node that is not, or no longer, the controller."""


class Unreachable(Exception):
    """A decision can't be written now, by nobody: those who keep the log can't be reached."""


class MetadataJournal(Protocol):
    """The metadata log as the rest of a node sees it, whoever it agrees with on it."""

    @property
    def committed_offset(self) -> Offset:
        """All below it is committed."""
        ...

    @property
    def last_offset(self) -> Offset:
        """Of the newest record, committed or not."""
        ...

    def append(self, records: Sequence[MetadataRecord], now: Now) -> Offset:
        """Write one decision; gives its last record's offset. `DiskError`, `NotController`, or
        `Unreachable`."""
        ...

    def flush_ticket(self) -> FlushTicket | None:
        """What is to be made durable here, if there is something."""
        ...

    def flushed(self, ticket: FlushTicket, now: Now) -> None: ...

    def checkpoint(self) -> bool:
        """Note how far the log is durable; whether that has left something to be flushed."""
        ...

    def close_cleanly(self) -> None: ...

    def take_committed(self) -> list[MetadataRecord]:
        """The records that became committed since the last call, in order."""
        ...


class JournalDamaged(Exception):
    """The metadata log can't be read whole: the node must not start and guess."""


class Journal:
    """The metadata log of a node that is alone: a `MetadataJournal`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._uncommitted: deque[tuple[Offset, list[MetadataRecord]]] = deque()

    @classmethod
    def open(
        cls, disk: Disk, *, clean: bool, safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS
    ) -> Journal:
        """`JournalDamaged` if recovery finds that flushed decisions are lost: the files are then as
        they were, and a node starts from them once the damage is undone."""
        try:
            log = open_metadata_log(disk, clean=clean, safeguards=safeguards, refuses_damage=True)
        except FlushedRecordsDamaged as damaged:
            raise JournalDamaged(f"the metadata log is {damaged}") from None
        return cls(log)

    @property
    def log(self) -> Log:
        return self._log

    @property
    def committed_offset(self) -> Offset:
        return self.log.flushed_offset

    @property
    def last_offset(self) -> Offset:
        """Of the newest record, committed or not."""
        return Offset(self.log.log_end_offset - 1)

    def read_all(self) -> list[MetadataRecord]:
        """Every record, for replay at start; `JournalDamaged` if one can't be had."""
        records: list[MetadataRecord] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            span = self.log.read(
                offset,
                max_bytes=_READ_BYTES,
                limit_offset=self.log.log_end_offset,
                at_least_one=True,
            )
            if span is None or isinstance(span, ErrorCode):
                raise JournalDamaged(f"the metadata log is damaged at offset {offset}")
            for header, batch in iter_batches(memoryview(span.read())):
                records += _decoded(batch)
                offset = Offset(header.next_offset)
        return records

    def append(self, records: Sequence[MetadataRecord], now: Now) -> Offset:
        """Write one decision; gives its last record's offset. `DiskError` if the disk won't."""
        now_ms = now.wall_ms
        batch = encode_batch(
            [
                Record(offset=index, timestamp=now_ms, value=encode_record(record))
                for index, record in enumerate(records)
            ]
        )
        appended = self.log.append(memoryview(batch), leader_epoch=_EPOCH, now_ms=now_ms)
        assert appended.error is ErrorCode.NONE, f"our own batch was refused: {appended!r}"
        self._uncommitted.append((appended.last_offset, list(records)))
        return appended.last_offset

    def flush_ticket(self) -> FlushTicket | None:
        return self.log.flush_targets()

    def flushed(self, ticket: FlushTicket, now: Now) -> None:
        self.log.flushed(ticket)

    def checkpoint(self) -> bool:
        self.log.checkpoint()
        return self.log.has_mark_to_sync

    def close_cleanly(self) -> None:
        self.log.close_cleanly()

    def take_committed(self) -> list[MetadataRecord]:
        """The records that became committed since the last call, in order."""
        records: list[MetadataRecord] = []
        while self._uncommitted and self._uncommitted[0][0] < self.committed_offset:
            records += self._uncommitted.popleft()[1]
        return records


def _decoded(batch: memoryview) -> list[MetadataRecord]:
    try:
        return [
            decode_record(record.value or b"") for record in decode_records(batch, _MAX_BATCH_BYTES)
        ]
    except DecodeError as error:
        raise JournalDamaged(f"the metadata log can't be understood: {error}") from None

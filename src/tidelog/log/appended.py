"""What became of an append."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, Offset


class RecordError(NamedTuple):
    """One record because of which its batch was refused. `number` is its place in the request's
    records of the partition."""

    number: int
    message: str


class Appended(NamedTuple):
    """`error` other than NONE: nothing has changed; `message` and `record_errors` say more about
    it, where there is more to say."""

    error: ErrorCode
    base_offset: Offset = NO_OFFSET
    last_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    is_duplicate: bool = False
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()


def refused(
    error: ErrorCode, message: str | None = None, record_errors: tuple[RecordError, ...] = ()
) -> Appended:
    return Appended(error, message=message, record_errors=record_errors)

"""What a request leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.wire.records import Header


class GroupRecord(NamedTuple):
    """One record for `__consumer_offsets`; no value means that the key is no more."""

    key: bytes
    value: bytes | None
    headers: Sequence[Header] = ()
    content: tuple[Any, Any] | None = None
    """The key and the value that these bytes say, where whoever made them kept both: then a replay
    need not read them. Nothing else may differ."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the request that waits under `ticket`."""

    ticket: int
    response: Any


@dataclass(slots=True)
class Decision:
    """Records that are committed together, and replies that are true once they are.

    A reply may leave only when everything the coordinator has decided *so far* is committed, also
    if this decision has no records: an offset read back is as good as a commit acknowledged.
    """

    records: list[GroupRecord] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    is_retractable: bool = False
    """Deciding has changed nothing: if the records can't be written, it was never decided."""

    def reply(self, ticket: int | None, response: Any) -> None:
        """Nobody waits under `None`: the connection is gone."""
        if ticket is not None:
            self.replies.append(Reply(ticket, response))

    def add(self, other: Decision) -> None:
        """What another part of the coordinator has decided at the same moment."""
        self.records += other.records
        self.replies += other.replies

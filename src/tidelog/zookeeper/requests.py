"""What a node may ask of ZooKeeper, and what it may hear from it: values only.

A request is numbered and belongs to a session: the door drops what was meant for an earlier one.
Its result is one of the answers below, or `Unheard`: the connection broke, and a write may have
happened or not. A watch fires once and says no more than that it is worth looking again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NewType

SessionId = NewType("SessionId", int)

NO_SESSION = SessionId(0)
ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class Create:
    """An ephemeral znode goes when the session does that made it."""

    path: str
    data: bytes = b""
    is_ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Replace what is in a znode, if that is of the `version` given."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Let the whole write happen only if the znode is of this version."""

    path: str
    version: int


Change = Create | Put | Delete | Check


@dataclass(frozen=True, slots=True)
class Get:
    """What is in a znode. With `watches` its next change, its end or its beginning is told."""

    path: str
    watches: bool = False


@dataclass(frozen=True, slots=True)
class Children:
    """The names below a znode. With `watches` it is told when they are others."""

    path: str
    watches: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """All of the changes, or none."""

    changes: tuple[Change, ...]


Request = Get | Children | Write


@dataclass(frozen=True, slots=True)
class Got:
    """`owner` is the session of an ephemeral znode."""

    data: bytes
    version: int
    owner: SessionId = NO_SESSION


@dataclass(frozen=True, slots=True)
class Listed:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such znode."""


@dataclass(frozen=True, slots=True)
class Written:
    """Everything happened."""


Reason = Literal["exists", "missing", "version", "not empty", "other"]


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing happened, because of the change at `index`."""

    index: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Unheard:
    """No answer will come: nobody knows whether it happened."""


Result = Got | Listed | Missing | Written | Refused | Unheard


@dataclass(frozen=True, slots=True)
class AskZooKeeper:
    """The effect: to be carried out in the order asked, if the session is still this one."""

    number: int
    session: SessionId
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    number: int
    result: Result


@dataclass(frozen=True, slots=True)
class WatchFired:
    path: str


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """A new session: ZooKeeper keeps it for `timeout_ms` after it last heard of us."""

    session: SessionId
    timeout_ms: float


@dataclass(frozen=True, slots=True)
class SessionSuspended:
    """The connection is gone. The session may live or not."""


@dataclass(frozen=True, slots=True)
class SessionResumed:
    """Connected again, in the same session."""


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """ZooKeeper has ended the session, and with it our ephemeral znodes."""


Word = Answered | WatchFired | SessionStarted | SessionSuspended | SessionResumed | SessionExpired


@dataclass(frozen=True, slots=True)
class ZooKeeperSpoke:
    """The event: something was heard of ZooKeeper."""

    word: Word

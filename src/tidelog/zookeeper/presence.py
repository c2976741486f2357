"""The node's own znode, and the sight of everybody else's.

`/brokers/ids/<id>` is ephemeral: it is there as long as the node's session lives, and so says to
the controller that the node may still believe to lead what it leads. A node back from a crash finds
the znode of its former life, whose session has not run out yet. If that names the broker epoch
which the node's own directory holds, the process that had the directory is gone, and the znode is
replaced at once; else it may be another node of that id, and the end of its session is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.ids import NO_BROKER_EPOCH, Endpoint, NodeId
from tidelog.zookeeper.paths import (
    CONFIGS,
    CONTROLLER_EPOCH,
    HEAD,
    IDS,
    LOG,
    SNAPSHOTS,
    TOPICS,
    Head,
    from_json,
    id_path,
    node_json,
)
from tidelog.zookeeper.requests import (
    Children,
    Create,
    Delete,
    Get,
    Got,
    Listed,
    Missing,
    Put,
    Refused,
    Result,
    SessionId,
    Write,
    Written,
)
from tidelog.zookeeper.talks import Pause, Talk

_RETRY_MS = 200.0

_GROUND: tuple[Create, ...] = (
    *(Create(path) for path in ("/brokers", IDS, TOPICS, "/config", CONFIGS)),
    *(Create(path) for path in ("/tidelog", "/tidelog/metadata", LOG, SNAPSHOTS)),
    Create(CONTROLLER_EPOCH, b"0"),
    Create(HEAD, Head().encode()),
)
"""What must be there before anything else; the head last, since all of it is there once that is."""


@dataclass(frozen=True, slots=True)
class Self:
    """What the node says of itself. `last_epoch` is the broker epoch its directory holds."""

    node_id: NodeId
    endpoint: Endpoint
    rack: str | None
    last_epoch: int


class Presence:
    """Of one node."""

    def __init__(self, own: Self) -> None:
        self._own = own
        self.epoch = self._written_epoch = own.last_epoch
        self.is_announced = False
        """The znode is there, in the present session."""
        self.present: frozenset[NodeId] | None = None
        """Who is there, as far as this node has looked."""

    def lose(self) -> None:
        """The session is over."""
        self.is_announced = False
        self.present = None

    @property
    def is_up_to_date(self) -> bool:
        return self._written_epoch == self.epoch

    def announce(self, session: SessionId) -> Talk:
        """Until the znode is there and is ours."""
        path = id_path(self._own.node_id)
        made: Result = Missing()
        while True:
            head = yield Get(HEAD)
            is_grounded = not (isinstance(made, Refused) and made.reason == "missing")
            if not (is_grounded and isinstance(head, Got)):
                for ground in _GROUND:
                    yield Write((ground,))
            self._written_epoch = self.epoch
            create = Create(path, self._data(), is_ephemeral=True)
            made = yield Write((create,))
            if not isinstance(made, Written):
                found = yield Get(path)
                if isinstance(found, Got) and found.owner == session:
                    break
                if isinstance(found, Got) and self._is_former_life(found):
                    made = yield Write((Delete(path, found.version), create))
            if isinstance(made, Written):
                break
            yield Pause(_RETRY_MS)
        self.is_announced = True

    def tell_epoch(self) -> Talk:
        """The broker epoch has become another."""
        while self.is_announced and not self.is_up_to_date:
            epoch, data = self.epoch, self._data()
            yield Write((Put(id_path(self._own.node_id), data),))
            self._written_epoch = epoch

    def look_around(self) -> Talk:
        listed = yield Children(IDS, watches=True)
        if isinstance(listed, Listed):
            numbers = (name for name in listed.names if name.isdecimal())
            self.present = frozenset(NodeId(int(number)) for number in numbers)

    def _data(self) -> bytes:
        return node_json(self._own.endpoint, self._own.rack, self.epoch)

    def _is_former_life(self, found: Got) -> bool:
        last = self._own.last_epoch
        return last != NO_BROKER_EPOCH and from_json(found.data).get("epoch") == last

"""The controller's office: how it is won, what is written in it, how it is lost.

    OUTSIDE ──there is none──► STANDING ──has created it──► ELECTED ──read all──► IN OFFICE
       ▲                          │                            │                      │
       └── another was quicker ◄──┴─── the session is over ◄───┴──── or replaced ◄────┘

Winning is one write: `/controller` is created and `/controller_epoch` raised. Each write of a
controller checks the version of `/controller_epoch`, so the write of one that was replaced is
refused as a whole. There is one write at a time; decisions that come meanwhile share the next.

A write that was not answered may have happened. The head tells: it names the epoch of who wrote it
and how far the log goes. If it is as it was, the same write is tried again, and its checks let it
happen once only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice

from tidelog.metadata.image import Image
from tidelog.metadata.records import MetadataRecord
from tidelog.metadata.snapshot import encode_image
from tidelog.model.ids import Endpoint, NodeId, Offset
from tidelog.zookeeper.following import Follower, Step
from tidelog.zookeeper.layout import TopicChanges, plan_changes, plan_repair
from tidelog.zookeeper.paths import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    HEAD,
    LOG,
    SNAPSHOTS,
    ControllerNode,
    Head,
    SnapshotPlace,
    batch_path,
    config_path,
    decode_count,
    encode_batch,
    first_offset,
    piece_path,
    snapshot_path,
    split,
    topic_path,
)
from tidelog.zookeeper.requests import (
    Change,
    Check,
    Children,
    Create,
    Delete,
    Get,
    Got,
    Listed,
    Put,
    Refused,
    SessionId,
    Write,
    Written,
)
from tidelog.zookeeper.talks import Talk

_MAX_CHANGES = 500
_MAX_BYTES = 300 * 1024
"""Of one write beside the log's own batch: with that, below ZooKeeper's megabyte."""

_MAX_MERGED = 2_000
"""Records of decisions that share a write."""

_LOG_PLACE = 3
"""Changes of a write before those of topics: the check, the head and the batch."""


class Stage(Enum):
    """See the module's text."""

    OUTSIDE = "outside"
    STANDING = "standing"
    ELECTED = "elected"
    IN_OFFICE = "in office"


@dataclass(slots=True)
class _Batch:
    """Decisions that are written together."""

    first: Offset
    records: list[MetadataRecord] = field(default_factory=list)
    topics: TopicChanges = field(default_factory=dict)

    @property
    def end(self) -> Offset:
        return Offset(self.first + len(self.records))


class Office:
    """Of one node. `newest_image` gives the image that the controller decides on."""

    def __init__(self, node_id: NodeId, endpoint: Endpoint, follower: Follower) -> None:
        self._node_id = node_id
        self._endpoint = endpoint
        self._follower = follower
        self.newest_image: Callable[[], Image] = _no_image
        self.stage = Stage.OUTSIDE
        self.controller: ControllerNode | None = None
        self.epoch = 0
        self._epoch_version = -1
        self._head = Head()
        self._head_version = -1
        self._is_head_certain = False
        self._queue: deque[_Batch] = deque()
        self._in_flight: _Batch | None = None
        self._end = Offset(0)
        self._unrepaired: dict[str, None] = {}
        self._snapshot: tuple[Offset, Image] | None = None

    @property
    def end(self) -> Offset:
        """Of the log with all that this controller has decided."""
        return self._end if self.stage is Stage.IN_OFFICE else self._follower.fetched

    @property
    def has_work(self) -> bool:
        if self.stage is not Stage.IN_OFFICE:
            return False
        waiting = (self._queue, self._in_flight, self._unrepaired, self._snapshot)
        return any(bool(each) for each in waiting)

    def leave(self) -> None:
        """What was decided and is not known to be written is given up: if it has happened after
        all, this node reads it as everybody does."""
        self.stage = Stage.OUTSIDE
        self._queue.clear()
        self._in_flight = self._snapshot = None
        self._unrepaired.clear()

    def suspend(self) -> None:
        """Nothing more can be asked; what was, may have happened."""
        self._is_head_certain = False
        if self.stage is not Stage.IN_OFFICE:
            self.stage = Stage.OUTSIDE

    # --- the election ---------------------------------------------------------------------------

    def look(self, session: SessionId, *, may_stand: Callable[[], bool]) -> Talk:
        """Who is the controller? If nobody, this node."""
        found = yield Get(CONTROLLER, watches=True)
        stale: Got | None = None
        self.controller = ControllerNode.decode(found.data) if isinstance(found, Got) else None
        if isinstance(found, Got):
            if found.owner == session:
                yield from self._claim()
                return
            if self.stage is not Stage.OUTSIDE:
                self.leave()
            if self.controller is not None and self.controller.node_id != self._node_id:
                return
            stale = found  # of our own former life: the id is ours now, so that one is gone
        elif self.stage is not Stage.OUTSIDE:
            self.leave()
        if may_stand():
            yield from self._stand(stale)

    def _stand(self, stale: Got | None) -> Step:
        self.stage = Stage.STANDING
        counted = yield Get(CONTROLLER_EPOCH)
        if not isinstance(counted, Got):
            self.stage = Stage.OUTSIDE
            return False
        me = ControllerNode(self._node_id, decode_count(counted.data) + 1, self._endpoint)
        changes: list[Change] = [] if stale is None else [Delete(CONTROLLER, stale.version)]
        changes += [
            Create(CONTROLLER, me.encode(), is_ephemeral=True),
            Put(CONTROLLER_EPOCH, str(me.epoch).encode(), counted.version),
        ]
        won = yield Write(tuple(changes))
        if isinstance(won, Written):
            self.controller = me
            yield from self._claim()
            return True
        self.stage = Stage.OUTSIDE
        found = yield Get(CONTROLLER, watches=True)
        self.controller = ControllerNode.decode(found.data) if isinstance(found, Got) else None
        return False

    def _claim(self) -> Step:
        """`/controller` is ours: read to the head, which nobody else can move any more."""
        if self.stage is Stage.IN_OFFICE:
            return True
        counted = yield Get(CONTROLLER_EPOCH)
        assert self.controller is not None, "who has the znode has written it"
        is_ours = isinstance(counted, Got) and decode_count(counted.data) == self.controller.epoch
        if not is_ours:
            self.leave()
            return False
        self.stage = Stage.ELECTED
        self.epoch, self._epoch_version = self.controller.epoch, counted.version
        yield from self._follower.follow()
        self._head, self._head_version = self._follower.head, self._follower.head_version
        self._is_head_certain = True
        self._end = self._follower.fetched
        self.stage = Stage.IN_OFFICE
        return True

    def resign(self) -> Talk:
        self.leave()
        yield Write((Check(CONTROLLER_EPOCH, self._epoch_version), Delete(CONTROLLER)))

    # --- decisions ------------------------------------------------------------------------------

    def propose(self, records: Sequence[MetadataRecord]) -> Offset:
        """Gives the offset of the last; `write` brings them to ZooKeeper."""
        before = self.newest_image()
        after, delta = before.replay(records)
        topics = plan_changes(before, after, delta, epoch=self.epoch)
        self._queue.append(_Batch(self._end, list(records), topics))
        self._end = Offset(self._end + len(records))
        return Offset(self._end - 1)

    def want_snapshot(self, end: Offset, image: Image) -> None:
        self._snapshot = (end, image)

    def write(self) -> Talk:
        """Until there is nothing left to write."""
        while self.has_work:
            if not self._is_head_certain and not (yield from self._look_at_head()):
                return
            if self._in_flight is None and self._queue:
                self._in_flight = self._merged()
            is_well = True
            if self._in_flight is not None:
                is_well = yield from self._write_batch(self._in_flight)
            elif self._unrepaired:
                is_well = yield from self._repair(next(iter(self._unrepaired)))
            elif self._snapshot is not None:
                is_well = yield from self._keep_snapshot(*self._snapshot)
            if not is_well:
                return

    def _merged(self) -> _Batch:
        batch = self._queue.popleft()
        while self._queue and len(batch.records) < _MAX_MERGED:
            other = self._queue.popleft()
            batch.records += other.records
            for topic, changes in other.topics.items():
                batch.topics.setdefault(topic, []).extend(changes)
        return batch

    def _look_at_head(self) -> Step:
        """After a write that was not answered. False: another is the controller now."""
        found = yield Get(HEAD)
        head = Head.decode(found.data if isinstance(found, Got) else b"")
        batch = self._in_flight
        written = self._head.end if batch is None else batch.end
        if head.epoch in (self.epoch, self._head.epoch) and head.end in (self._head.end, written):
            self._head, self._head_version = head, found.version
            self._is_head_certain = True
            if batch is not None and head.end == batch.end:
                self._follower.advance(batch.first, batch.records)
                self._in_flight = None
            return True
        self.leave()
        return False

    def _write_batch(self, batch: _Batch) -> Step:
        pieces = encode_batch(batch.records, self.epoch)
        check = Check(CONTROLLER_EPOCH, self._epoch_version)
        for number, piece in enumerate(pieces[1:], start=1):
            path = piece_path(batch.first, self.epoch, number)
            answer = yield Write((check, Create(path, piece)))
            if isinstance(answer, Refused) and answer.index == 0:
                self.leave()
                return False  # a piece that exists already is our own, of the same batch
        head = replace(self._head, end=batch.end, epoch=self.epoch)
        changes: list[Change] = [check, Put(HEAD, head.encode(), self._head_version)]
        changes.append(Create(batch_path(batch.first), pieces[0]))
        changes += self._fitting(batch.topics)
        self._is_head_certain = False
        answer = yield Write(tuple(changes))
        if isinstance(answer, Written):
            self._head, self._head_version = head, self._head_version + 1
            self._is_head_certain = True
            self._in_flight = None
            self._follower.advance(batch.first, batch.records)
            return True
        assert isinstance(answer, Refused)
        if answer.index == 0:
            self.leave()
            return False
        if answer.index >= _LOG_PLACE:
            # Somebody has touched a znode that is only for looking at: the decision comes first.
            self._is_head_certain = True
            self._unrepaired.update(dict.fromkeys(batch.topics))
            batch.topics = {}
        return True

    def _fitting(self, topics: TopicChanges) -> list[Change]:
        """As many topics as one write has room for; the others are repaired after it."""
        chosen: list[Change] = []
        size = 0
        for topic, changes in topics.items():
            size += sum(len(one.path) + _weight(one) for one in changes)
            is_full = size > _MAX_BYTES or len(chosen) + len(changes) > _MAX_CHANGES
            if is_full or topic in self._unrepaired:
                self._unrepaired[topic] = None
            else:
                chosen += changes
        return chosen

    # --- what follows from decisions ------------------------------------------------------------

    def _repair(self, topic: str) -> Step:
        listed = yield Children(f"{topic_path(topic)}/partitions")
        config = yield Get(config_path(topic))
        found = None
        if isinstance(listed, Listed):
            found = sorted(int(name) for name in listed.names if name.isdecimal())
        state = self.newest_image().topics.get(topic)
        changes = iter(
            plan_repair(
                state,
                topic,
                found=found,
                has_config=isinstance(config, Got),
                epoch=self.epoch,
            )
        )
        check = Check(CONTROLLER_EPOCH, self._epoch_version)
        while chunk := tuple(islice(changes, _MAX_CHANGES)):
            answer = yield Write((check, *chunk))
            if isinstance(answer, Refused):
                if answer.index == 0:
                    self.leave()
                    return False
                break  # somebody is at work there: the topic's next change will try again
        self._unrepaired.pop(topic, None)
        return True

    def _keep_snapshot(self, end: Offset, image: Image) -> Step:
        """All metadata as one image; the log before it is let go of."""
        self._snapshot = None
        path, check = snapshot_path(end, self.epoch), Check(CONTROLLER_EPOCH, self._epoch_version)
        pieces = split(encode_image(image))
        for name, data in ((path, b""), *((f"{path}/{n}", p) for n, p in enumerate(pieces))):
            answer = yield Write((check, Create(name, data)))
            if isinstance(answer, Refused):
                if answer.index == 0:
                    self.leave()
                return answer.index != 0  # one of that name is there: leave it
        place = SnapshotPlace(end, self.epoch, len(pieces))
        head = replace(self._head, epoch=self.epoch, snapshot=place)
        self._is_head_certain = False
        answer = yield Write((check, Put(HEAD, head.encode(), self._head_version)))
        if not isinstance(answer, Written):
            return True
        self._head, self._head_version = head, self._head_version + 1
        self._is_head_certain = True
        yield from self._forget(LOG, end, keep="")
        yield from self._forget(SNAPSHOTS, end, keep=path)
        return True

    def _forget(self, parent: str, end: Offset, *, keep: str) -> Step:
        """Batches and snapshots before `end`, which nobody needs any more."""
        check = Check(CONTROLLER_EPOCH, self._epoch_version)
        listed = yield Children(parent)
        names = sorted(listed.names) if isinstance(listed, Listed) else []
        old = [f"{parent}/{name}" for name in names if 0 <= first_offset(name) < end]
        if parent == SNAPSHOTS:
            pieces: list[str] = []
            for path in (path for path in old if path != keep):
                below = yield Children(path)
                if isinstance(below, Listed):
                    pieces += [f"{path}/{name}" for name in below.names]
            old = [*pieces, *old]
        paths = iter(path for path in old if path != keep)
        while chunk := list(islice(paths, _MAX_CHANGES)):
            yield Write((check, *(Delete(path) for path in chunk)))
        return True


def _weight(change: Change) -> int:
    return len(change.data) + 64 if isinstance(change, Create | Put) else 64


def _no_image() -> Image:
    raise AssertionError("the journal is not connected")

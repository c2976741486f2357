"""The metadata log of a node in a cluster: a replica of the quorum's, with its I/O as effects.

To the rest of the node it looks like the journal of a node that is alone: decisions in, committed
records out. Between the two stands the quorum: a decision counts when a majority of the voters has
it durably, and one made by a controller that was replaced meanwhile may never count. What the
quorum wants to say to other nodes goes through `Peers`; what they ask of it comes from handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from tidelog.broker.peers import Peers, Then
from tidelog.broker.quorum_requests import answer_of
from tidelog.log.disk import DiskError, DiskFull
from tidelog.log.log import FlushTicket, Log
from tidelog.metadata.image import Image
from tidelog.metadata.journal import NotController
from tidelog.metadata.quorum_log import LogDamaged, MetadataLog
from tidelog.metadata.records import MetadataRecord, decode_record, encode_record
from tidelog.metadata.snapshot import SnapshotDecoding, SnapshotEncoding, decode_image
from tidelog.metadata.vote_file import VoteDamaged
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint, LeaderEpoch, NodeId, Offset
from tidelog.quorum.events import (
    AnnounceLeader,
    ApplyCommitted,
    Effect,
    Event,
    FlushLog,
    LeaveOffice,
    LoadSnapshot,
    LogFlushed,
    RequestFailed,
    RequestReceived,
    ResignationWanted,
    ResponseReceived,
    SendRequest,
    SendResponse,
    TakeOffice,
    Ticked,
    Ticket,
)
from tidelog.quorum.messages import PeerResponse, Request
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.translation import VERSIONS, request_to_wire, response_from_wire
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages import fetch, vote
from tidelog.zookeeper.requests import AskZooKeeper, Word

_REQUEST_TIMEOUT_MS = 2_000.0
_LOOK_FOR_ROOM_MS = 1_000.0
_LOOK_FOR_ROOM_MAX_MS = 60_000.0
_AT_ONCE = 0.0
_SNAPSHOT_RETRY_MS = 60_000.0
"""A snapshot that found no room has the whole image encoded, and may fill the disk again."""
_ENDPOINT_ROWS: dict[type, Callable[..., Any]] = {
    fetch.FetchResponse: fetch.NodeEndpoint,
    vote.VoteResponse: vote.NodeEndpoint,
}


class QuorumJournal:
    """See the module's text. To be connected before it is used."""

    def __init__(
        self,
        quorum: Quorum,
        metadata_log: MetadataLog,
        peers: Peers,
        *,
        known: Mapping[NodeId, Endpoint],
        records_per_snapshot: int,
        cluster_id: str | None,
        reopen: Callable[[float, str | None], tuple[Quorum, MetadataLog]],
    ) -> None:
        self._quorum = quorum
        self._known = known
        self._log = metadata_log
        self._peers = peers
        self._records_per_snapshot = records_per_snapshot
        self._reopen = reopen
        self._cluster_id = cluster_id
        self._look_for_room_ms: float | None = None
        """When to try again, if the disk was too full for a step of the quorum."""
        self._room_pause_ms = _LOOK_FOR_ROOM_MS
        self._resumed_ms = -inf
        self._snapshot_ms = -inf
        """No snapshot before, since the disk had no room for the last."""
        self._endpoint_of: Callable[[NodeId], Endpoint | None] = _nowhere
        self._answer: Callable[[int, Any], None] = _to_nobody
        self._want_flush: Callable[[], None] = _never
        self._applied = quorum.high_watermark
        self._since_snapshot = 0
        self._encoding: tuple[SnapshotEncoding, Offset] | None = None
        """A snapshot in the making, of all records below the offset; how many came later is in
        `_since_encoding`."""
        self._since_encoding = 0
        self._is_encoded = False
        self._decoding: tuple[SnapshotDecoding, Offset] | None = None
        """What was loaded and is not known yet. Until it is, nothing is given out: `_applied` stays
        where it was, below the log's start."""
        self._restored: Image | None = self._restore()
        self._told: dict[NodeId, Endpoint] = {}
        """Where nodes are, from answers of others: for a replica that knows no voter yet."""
        self.leader_id: NodeId | None = None
        self.failure: str | None = None
        """Why the quorum can't go on here: the node must stop."""
        self.twin: tuple[LeaderEpoch, float] | None = None
        """In which epoch others say that this node leads, though it does not, and when they did."""
        self.stranger: Endpoint | None = None
        """A node that was asked, and belongs to another cluster."""
        self.reports: list[str] = []

    # --- as any journal -------------------------------------------------------------------------

    @property
    def log(self) -> Log:
        """This node's copy, for those who check it."""
        return self._log.log

    @property
    def committed_offset(self) -> Offset:
        """All below it is committed, and was given out by `take_committed` or will be next."""
        if self._look_for_room_ms is not None or self._decoding is not None:
            return self._applied
        return max(self._applied, self._quorum.high_watermark)

    @property
    def applied_offset(self) -> Offset:
        """Of the last record given out."""
        return Offset(self._applied - 1)

    @property
    def last_offset(self) -> Offset:
        return Offset(self._log.end_offset - 1)

    @property
    def epoch(self) -> LeaderEpoch:
        return self._quorum.epoch

    @property
    def is_active(self) -> bool:
        """This node is the controller, and knows all that was decided before it was."""
        is_ready = self._look_for_room_ms is None and self._decoding is None
        return is_ready and self._quorum.has_office

    def office_until_ms(self) -> float | None:
        """Until when no other controller is elected, as far as this one knows; none if it is not
        the controller, or if nobody else votes."""
        is_ready = self._look_for_room_ms is None and self._decoding is None
        return self._quorum.office_until_ms if is_ready else None

    def append(self, records: Sequence[MetadataRecord], now: Now) -> Offset:
        """Propose one decision; gives its last record's offset. `NotController`, or `DiskError`:
        then another is to be the controller, or nobody could move what this disk can't keep."""
        if self._look_for_room_ms is not None or self._decoding is not None:
            raise NotController
        self._log.now_ms = now.wall_ms
        encoded = [encode_record(record) for record in records]
        try:
            proposal, effects = self._quorum.propose(now.monotonic_ms, encoded)
        except DiskError:
            self.resign(now)
            raise
        self._carry_out(now, effects)
        if proposal.error is not ErrorCode.NONE:
            raise NotController
        return proposal.last_offset

    def flush_ticket(self) -> FlushTicket | None:
        return self._log.log.flush_targets()

    def flushed(self, ticket: FlushTicket, now: Now) -> None:
        self._log.log.flushed(ticket)
        self._step(now, LogFlushed())

    def checkpoint(self) -> bool:
        log = self._log.log
        log.checkpoint()
        return log.has_mark_to_sync

    def close_cleanly(self) -> None:
        self._log.log.close_cleanly()

    def take_restored(self) -> Image | None:
        """The image of a snapshot, if one is to take the place of all that was known."""
        restored, self._restored = self._restored, None
        return restored

    def take_committed(self) -> list[MetadataRecord]:
        """The records that became committed since the last call, in order."""
        records: list[MetadataRecord] = []
        while self._applied < self.committed_offset:
            for batch in self._quorum.read_committed(self._applied):
                records += [decode_record(value) for value in batch.records]
                self._applied = batch.next_offset
        self._since_snapshot += len(records)
        self._since_encoding += len(records)
        return records

    def read_uncommitted(self) -> list[MetadataRecord]:
        """What lies in the log beyond `take_committed`: a new controller decides on it, too."""
        records: list[MetadataRecord] = []
        offset = self._applied
        while offset < self._log.end_offset:
            for batch in self._log.read(offset, max_bytes=1 << 20):
                records += [decode_record(value) for value in batch.records]
                offset = batch.next_offset
        return records

    def keep_snapshot(self, image: Image, now: Now) -> None:
        """Keep `image`, which has all that was given out so far, if the log has grown enough. A
        large one is encoded in slices (`tick`), and kept by a call after the last.
        `DiskError` if the disk won't: then nothing has changed, and if it is merely full, this
        tries again after a while."""
        is_due = self._since_snapshot >= self._records_per_snapshot
        has_room = self._look_for_room_ms is None and now.monotonic_ms >= self._snapshot_ms
        if not (is_due and has_room):
            return
        if self._encoding is None and self._may_begin_at(self._applied):
            self._encoding = SnapshotEncoding(image), self._applied
            self._since_encoding, self._is_encoded = 0, False
            self._encode()
        if self._encoding is not None and self._is_encoded:
            (encoding, end), self._encoding = self._encoding, None
            if self._may_begin_at(end):
                self._save_snapshot(encoding.data, end, now)

    def _may_begin_at(self, end: Offset) -> bool:
        """Whether the log may: all below is committed, and some of it still there."""
        return self._log.start_offset < end <= self._quorum.high_watermark

    def _encode(self) -> None:
        if self._encoding is not None and not self._is_encoded:
            self._is_encoded = self._encoding[0].turn()

    def _save_snapshot(self, state: bytes, end: Offset, now: Now) -> None:
        try:
            self._quorum.snapshot(end, state)
        except DiskFull:
            self._snapshot_ms = now.monotonic_ms + _SNAPSHOT_RETRY_MS
            raise
        self._since_snapshot = self._since_encoding

    # --- the quorum -----------------------------------------------------------------------------

    def connect(
        self,
        *,
        endpoint_of: Callable[[NodeId], Endpoint | None],
        answer: Callable[[int, Any], None],
        want_flush: Callable[[], None],
        newest_image: Callable[[], Image],
    ) -> None:
        """Before the first step: where other nodes are, how rows are answered, who flushes."""
        self._endpoint_of = endpoint_of
        self._answer = answer
        self._want_flush = want_flush

    def join(self, cluster_id: str) -> None:
        """It is known now, and written down, to which cluster this node belongs."""
        self._cluster_id = cluster_id
        self._quorum.join(cluster_id)

    def configured_endpoint(self, node_id: NodeId) -> Endpoint | None:
        return self._known.get(node_id)

    def told_endpoint(self, node_id: NodeId) -> Endpoint | None:
        return self._told.get(node_id)

    def next_deadline(self) -> float | None:
        if self._look_for_room_ms is not None:
            return self._look_for_room_ms
        if self._decoding is not None or (self._encoding is not None and not self._is_encoded):
            return _AT_ONCE
        return self._quorum.next_deadline()

    def tick(self, now: Now) -> None:
        if self._look_for_room_ms is not None:
            if self.failure is None and now.monotonic_ms >= self._look_for_room_ms:
                self._resume(now)
            return
        self._encode()
        self._decode()
        deadline_ms = self._quorum.next_deadline()
        if deadline_ms is not None and now.monotonic_ms >= deadline_ms:
            self._step(now, Ticked())

    def receive(self, now: Now, number: int, request: Request) -> None:
        """A question of another node; the answer goes to the row of that number."""
        self._step(now, RequestReceived(Ticket(number), request))

    def resign(self, now: Now) -> None:
        """Hand over: this node stops, or can't write."""
        self._step(now, ResignationWanted())

    # Of what a ZooKeeper knows, a quorum knows nothing: heartbeats alone say who is there.

    lease_until_ms = 0.0
    present: frozenset[NodeId] | None = None
    may_join = True
    is_cut_off = False
    sessions_ended = 0

    def is_certain(self, now_ms: float) -> bool:
        return True

    def note_broker_epoch(self, epoch: int, now: Now) -> None:
        pass

    def hear(self, word: Word, now: Now) -> None:
        raise AssertionError("no ZooKeeper was asked anything")

    def take_effects(self) -> list[AskZooKeeper]:
        return []

    def validate(self) -> None:
        if self._look_for_room_ms is None:
            self._quorum.validate()

    def describe(self) -> dict[str, Any]:
        return self._quorum.describe()

    def _step(self, now: Now, event: Event) -> None:
        """If the disk won't take a vote or a record, the step did not happen to anybody else, and
        this replica can't go on: what it believes is no longer what its disk says. If the disk is
        merely full, it begins again from there when there is room."""
        if self.failure is not None or self._look_for_room_ms is not None:
            return
        self._log.now_ms = now.wall_ms
        try:
            effects = self._quorum.step(now.monotonic_ms, event)
        except DiskFull as full:
            self._stand_aside(now, full)
            return
        except DiskError as error:
            self.failure = str(error) or type(error).__name__
            return
        self._carry_out(now, effects)

    def _stand_aside(self, now: Now, full: DiskFull) -> None:
        """Until there is room this replica neither votes nor leads nor acknowledges anything: to
        the others it is as if its node were down. If it comes back only to find too little again,
        as for a snapshot that the leader sends, it waits longer each time."""
        is_soon = now.monotonic_ms - self._resumed_ms < _LOOK_FOR_ROOM_MAX_MS
        longer_ms = min(2 * self._room_pause_ms, _LOOK_FOR_ROOM_MAX_MS)
        self._room_pause_ms = longer_ms if is_soon else _LOOK_FOR_ROOM_MS
        self._look_for_room_ms = now.monotonic_ms + self._room_pause_ms
        self.leader_id = None
        self.reports.append(
            f"disk full ({full}): this node does not vote, cannot become controller and receives "
            "no metadata until disk space is freed"
        )

    def _resume(self, now: Now) -> None:
        """As after a restart: from what the disk says, and with the promises of the last run."""
        try:
            self._quorum, self._log = self._reopen(now.monotonic_ms, self._cluster_id)
        except DiskFull:
            self._look_for_room_ms = now.monotonic_ms + _LOOK_FOR_ROOM_MS
            return
        except (DiskError, LogDamaged, VoteDamaged, DecodeError) as error:
            self.failure = str(error) or type(error).__name__
            return
        self._look_for_room_ms = None
        self._resumed_ms = now.monotonic_ms
        if self._quorum.high_watermark > self._applied:
            state = self._quorum.restored_state()
            assert state is not None, "a log that begins with nothing is committed further on"
            self._load(state, self._quorum.high_watermark)
        self._want_flush()
        self.reports.append("there is room on the disk again: takes part in elections")

    def _carry_out(self, now: Now, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendRequest):
                self._send(now, effect)
            elif isinstance(effect, SendResponse):
                response = answer_of(effect.response, now)
                self._name_leader(response, getattr(effect.response, "leader_id", None))
                self._answer(effect.ticket, response)
            elif isinstance(effect, FlushLog):
                self._want_flush()
            elif isinstance(effect, AnnounceLeader):
                self.leader_id = effect.leader_id
                if effect.leader_id is not None:
                    self.twin = None
            elif isinstance(effect, LoadSnapshot):
                self._load(effect.state, effect.snapshot_id.end_offset)
            else:  # what is committed, and whether we have office, is looked up
                assert isinstance(effect, ApplyCommitted | TakeOffice | LeaveOffice)

    def _send(self, now: Now, effect: SendRequest) -> None:
        number, request, quorum = effect.number, effect.request, self._quorum
        endpoint = self._endpoint_of(effect.destination)
        if endpoint is None:
            return  # the quorum's own timeout tells it
        self._peers.call(
            endpoint,
            "quorum",
            request_to_wire(request),
            version=VERSIONS[type(request)],
            deadline_ms=now.monotonic_ms + _REQUEST_TIMEOUT_MS,
            conversation=Then(
                lambda then, answer: self._answered(then, quorum, number, endpoint, answer),
                lambda then, reason: self._step_of(then, quorum, RequestFailed(number)),
            ),
        )

    def _step_of(self, now: Now, quorum: Quorum, event: Event) -> None:
        """What another incarnation has asked is none of this one's business."""
        if quorum is self._quorum:
            self._step(now, event)

    def _answered(
        self, now: Now, quorum: Quorum, number: int, endpoint: Endpoint, answer: Any
    ) -> None:
        for node in getattr(answer, "node_endpoints", ()):
            self._told[NodeId(node.node_id)] = Endpoint(node.host, node.port)
        event = _received(number, answer)
        if isinstance(event, ResponseReceived):
            if event.response.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
                self.stranger = endpoint
            self._heed_twin(now, event.response)
        self._step_of(now, quorum, event)

    def _heed_twin(self, now: Now, response: PeerResponse) -> None:
        own_id = self._quorum.node_id
        is_here = own_id == self.leader_id or self._quorum.is_leading
        if response.leader_id == own_id and not is_here:
            self.twin = (response.leader_epoch, now.monotonic_ms)

    def _name_leader(self, response: Any, leader_id: NodeId | None) -> None:
        """Who fetches, or asks for votes, and does not know where the leader is reads it in the
        answer."""
        row = _ENDPOINT_ROWS.get(type(response))
        endpoint = None if row is None or leader_id is None else self._endpoint_of(leader_id)
        if row is not None and endpoint is not None:
            named = row(node_id=leader_id, host=endpoint.host, port=endpoint.port)
            response.node_endpoints = [named]

    def voter_endpoint(self, node_id: NodeId) -> Endpoint | None:
        """Where a node is by the log's own set of voters."""
        voter = self._quorum.voters.get(node_id)
        if voter is None or not voter.endpoints:
            return None
        return Endpoint(voter.endpoints[0].host, voter.endpoints[0].port)

    def _load(self, state: bytes, end: Offset) -> None:
        """A snapshot of all below `end` takes the place of what was known, once it is decoded."""
        self._decoding = SnapshotDecoding(state), end
        self._decode()

    def _decode(self) -> None:
        if self._decoding is not None and self._decoding[0].turn():
            (decoding, self._applied), self._decoding = self._decoding, None
            self._restored = decoding.image

    def _restore(self) -> Image | None:
        state = self._quorum.restored_state()
        return None if state is None else decode_image(state)


def _received(number: int, answer: Any) -> Event:
    try:
        return ResponseReceived(number, response_from_wire(answer))
    except DecodeError:
        return RequestFailed(number)


def _nowhere(node_id: NodeId) -> Endpoint | None:
    raise AssertionError("the journal is not connected")


def _to_nobody(number: int, response: Any) -> None:
    raise AssertionError("the journal is not connected")


def _never() -> None:
    raise AssertionError("the journal is not connected")

"""The metadata log of a node in a cluster: a replica of the quorum's, with its I/O as effects.

To the rest of the node it looks like the journal of a node that is alone: decisions in, committed
records out. Between the two stands the quorum: a decision counts when a majority of the voters has
it durably, and one made by a controller that was replaced meanwhile may never count. What the
quorum wants to say to other nodes goes through `Peers`; what they ask of it comes from handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidelog.broker.peers import Peers, Then
from tidelog.broker.quorum_requests import answer_of
from tidelog.log.disk import DiskError
from tidelog.log.log import FlushTicket, Log
from tidelog.metadata.image import Image
from tidelog.metadata.journal import NotController
from tidelog.metadata.quorum_log import MetadataLog
from tidelog.metadata.records import MetadataRecord, decode_record, encode_record
from tidelog.metadata.snapshot import decode_image, encode_image
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
    ) -> None:
        self._quorum = quorum
        self._known = known
        self._log = metadata_log
        self._peers = peers
        self._records_per_snapshot = records_per_snapshot
        self._endpoint_of: Callable[[NodeId], Endpoint | None] = _nowhere
        self._answer: Callable[[int, Any], None] = _to_nobody
        self._want_flush: Callable[[], None] = _never
        self._applied = quorum.high_watermark
        self._since_snapshot = 0
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
        return self._quorum.high_watermark

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
        return self._quorum.has_office

    def office_until_ms(self) -> float | None:
        """Until when no other controller is elected, as far as this one knows; none if it is not
        the controller, or if nobody else votes."""
        return self._quorum.office_until_ms

    def append(self, records: Sequence[MetadataRecord], now: Now) -> Offset:
        """Propose one decision; gives its last record's offset. `NotController`, or `DiskError`:
        then another is to be the controller, or nobody could move what this disk can't keep."""
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
        return log.has_overtaken_mark

    def close_cleanly(self) -> None:
        self._log.log.close_cleanly()

    def take_restored(self) -> Image | None:
        """The image of a snapshot, if one is to take the place of all that was known."""
        restored, self._restored = self._restored, None
        return restored

    def take_committed(self) -> list[MetadataRecord]:
        """The records that became committed since the last call, in order."""
        records: list[MetadataRecord] = []
        while self._applied < self._quorum.high_watermark:
            for batch in self._quorum.read_committed(self._applied):
                records += [decode_record(value) for value in batch.records]
                self._applied = batch.next_offset
        self._since_snapshot += len(records)
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
        """Keep `image`, which has all that was given out so far, if the log has grown enough.
        `DiskError` if the disk won't: then nothing has changed."""
        is_due = self._since_snapshot >= self._records_per_snapshot
        if is_due and self._applied > self._log.start_offset:
            self._quorum.snapshot(self._applied, encode_image(image))
            self._since_snapshot = 0

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
        self._quorum.join(cluster_id)

    def configured_endpoint(self, node_id: NodeId) -> Endpoint | None:
        return self._known.get(node_id)

    def told_endpoint(self, node_id: NodeId) -> Endpoint | None:
        return self._told.get(node_id)

    def next_deadline(self) -> float | None:
        return self._quorum.next_deadline()

    def tick(self, now: Now) -> None:
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
        self._quorum.validate()

    def describe(self) -> dict[str, Any]:
        return self._quorum.describe()

    def _step(self, now: Now, event: Event) -> None:
        """If the disk won't take a vote or a record, the step did not happen to anybody else, and
        this replica can't go on: what it believes is no longer what its disk says."""
        if self.failure is not None:
            return
        self._log.now_ms = now.wall_ms
        try:
            effects = self._quorum.step(now.monotonic_ms, event)
        except DiskError as error:
            self.failure = str(error) or type(error).__name__
            return
        self._carry_out(now, effects)

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
                self._restored = decode_image(effect.state)
                self._applied = effect.snapshot_id.end_offset
            else:  # what is committed, and whether we have office, is looked up
                assert isinstance(effect, ApplyCommitted | TakeOffice | LeaveOffice)

    def _send(self, now: Now, effect: SendRequest) -> None:
        number, request = effect.number, effect.request
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
                lambda then, answer: self._answered(then, number, endpoint, answer),
                lambda then, reason: self._step(then, RequestFailed(number)),
            ),
        )

    def _answered(self, now: Now, number: int, endpoint: Endpoint, answer: Any) -> None:
        for node in getattr(answer, "node_endpoints", ()):
            self._told[NodeId(node.node_id)] = Endpoint(node.host, node.port)
        event = _received(number, answer)
        if isinstance(event, ResponseReceived):
            if event.response.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
                self.stranger = endpoint
            self._heed_twin(now, event.response)
        self._step(now, event)

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

"""A leader's work: answering fetches, saying what is committed, noticing that nobody follows.

A fetch is answered in two parts. First its position is judged against our log: it may continue, or
the logs part somewhere (the answer tells where our log's next lower epoch ends, so that the
follower can cut), or it needs what only the snapshot has. Then, if there is nothing new, it is
parked.

The high watermark is moved by `settle` at the end of each step. Records of earlier epochs are
committed only together with one of our own epoch: a majority that holds an old record can still be
outvoted by a replica with a newer epoch (the Raft paper's figure 8), one that holds ours can not.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.safeguards import Safeguard
from tidelog.quorum import membership, roles
from tidelog.quorum.batches import Batch
from tidelog.quorum.core import Core
from tidelog.quorum.events import ApplyCommitted, TakeOffice, Ticket
from tidelog.quorum.leadership import Leadership, ParkedFetch, Progress
from tidelog.quorum.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReplicaProgress,
)
from tidelog.quorum.ports import EpochEnd, QuorumLog, SnapshotId
from tidelog.quorum.voters import ReplicaKey


def on_fetch(core: Core, now_ms: float, ticket: Ticket, request: FetchRequest) -> None:
    lead, error = _leadership_for(core, request, now_ms)
    if lead is None:
        core.reply(ticket, FetchResponse(error, core.followed_leader, core.epoch))
        return
    progress = lead.contact(request.replica, now_ms)
    progress.heard(request.heard)
    verdict = judge(core.log, request.fetch_offset, request.last_fetched_epoch)
    if verdict is not None:
        core.reply(ticket, _not_here(core, verdict, number=progress.answered(now_ms)))
        return
    progress.position = request.fetch_offset
    if request.fetch_offset >= core.log.end_offset:
        progress.last_caught_up_ms = now_ms
    node_id = request.replica.node_id
    former = lead.parked.pop(node_id, None)
    if former is not None:
        core.reply(former.ticket, _fetched(core, former.request))  # nobody waits for it any more
    lead.parked[node_id] = ParkedFetch(ticket, request, now_ms + request.max_wait_ms)


def _leadership_for(
    core: Core, request: FetchRequest | FetchSnapshotRequest, now_ms: float
) -> tuple[Leadership | None, ErrorCode]:
    error = core.refusal(request.epoch, request.cluster_id)
    if error is not None:
        return None, error
    if request.epoch > core.epoch:
        return None, ErrorCode.UNKNOWN_LEADER_EPOCH
    lead = core.leadership
    if lead is not None and lead.is_taken(request.replica, now_ms, core.settings.fetch_timeout_ms):
        return None, ErrorCode.INVALID_VOTER_KEY
    return lead, ErrorCode.NOT_LEADER_OR_FOLLOWER


def judge(
    log: QuorumLog, fetch_offset: Offset, last_fetched_epoch: LeaderEpoch
) -> EpochEnd | SnapshotId | None:
    """None if a log that ends like this is a prefix of ours and can go on from there."""
    start, snapshot_id = log.start_offset, log.snapshot_id
    if fetch_offset == start:
        if start == 0 or snapshot_id == (fetch_offset, last_fetched_epoch):
            return None
        return _newest(snapshot_id)
    if fetch_offset < start:
        return _newest(snapshot_id)
    end = log.epoch_end(last_fetched_epoch)
    if end.epoch == last_fetched_epoch and end.end_offset >= fetch_offset:
        return None
    if end.end_offset <= start and start > 0:
        return _newest(snapshot_id)
    return EpochEnd(end.epoch, Offset(max(end.end_offset, 0)))


def _newest(snapshot_id: SnapshotId | None) -> SnapshotId:
    assert snapshot_id is not None, "a log that begins later has a snapshot"
    return snapshot_id


def _not_here(core: Core, verdict: EpochEnd | SnapshotId, *, number: int) -> FetchResponse:
    return FetchResponse(
        ErrorCode.NONE,
        core.key.node_id,
        core.epoch,
        core.high_watermark,
        core.log.start_offset,
        diverging=verdict if isinstance(verdict, EpochEnd) else None,
        snapshot_id=verdict if isinstance(verdict, SnapshotId) else None,
        number=number,
    )


def _fetched(core: Core, request: FetchRequest, *, number: int = 0) -> FetchResponse:
    """The log may have begun later since the fetch was parked; then the next one gets a
    snapshot."""
    batches: tuple[Batch, ...] = ()
    if core.log.start_offset <= request.fetch_offset < core.log.end_offset:
        batches = core.log.read(request.fetch_offset, max_bytes=request.max_bytes)
    return FetchResponse(
        ErrorCode.NONE,
        core.key.node_id,
        core.epoch,
        core.high_watermark,
        core.log.start_offset,
        batches=batches,
        number=number,
    )


def on_fetch_snapshot(
    core: Core, now_ms: float, ticket: Ticket, request: FetchSnapshotRequest
) -> None:
    lead, error = _leadership_for(core, request, now_ms)
    wanted, position = request.snapshot_id, request.position
    size = None
    if lead is not None:
        lead.contact(request.replica, now_ms)
        size = core.log.snapshot_size(wanted)
        if size is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= position < size:
            size, error = None, ErrorCode.POSITION_OUT_OF_RANGE
    if size is None:
        refused = FetchSnapshotResponse(error, core.followed_leader, core.epoch, wanted)
        core.reply(ticket, refused)
        return
    data = core.log.read_snapshot(wanted, position, request.max_bytes)
    leader_id = core.followed_leader
    core.reply(
        ticket,
        FetchSnapshotResponse(ErrorCode.NONE, leader_id, core.epoch, wanted, size, position, data),
    )


def settle(core: Core, now_ms: float) -> None:
    """The end of a leader's step: what is committed by now, and who hears of it."""
    if core.leadership is None:
        return
    _advance(core, core.leadership)
    membership.settle(core, now_ms)
    if core.leadership is not None:
        _wake(core, core.leadership, now_ms)
        core.want_flush()


def _advance(core: Core, lead: Leadership) -> None:
    reached = lead.majority_offset(core.voters, core.log.durable_end_offset)
    holds_own_epoch = reached > lead.start_offset
    if Safeguard.OWN_EPOCH_FIRST in core.safeguards and not holds_own_epoch:
        return
    if reached > core.high_watermark:
        core.high_watermark = reached
        core.effects.append(ApplyCommitted(reached))
    if holds_own_epoch and not lead.has_office:
        lead.has_office = True
        core.effects.append(TakeOffice(core.epoch))


def _wake(core: Core, lead: Leadership, now_ms: float) -> None:
    for node_id, parked in list(lead.parked.items()):
        request = parked.request
        has_news = (
            core.log.end_offset > request.fetch_offset
            or core.high_watermark > request.high_watermark
        )
        if has_news or now_ms >= parked.deadline_ms:
            del lead.parked[node_id]
            number = lead.replicas[node_id].answered(now_ms)
            core.reply(parked.ticket, _fetched(core, request, number=number))


def tick(core: Core, now_ms: float) -> None:
    """A leader whose voters don't fetch may have been replaced long ago: it stops saying that it
    leads, so that nobody waits for it (check-quorum)."""
    lead = core.leadership
    if lead is None:
        return
    deadline_ms = lead.quorum_deadline_ms(core.voters, core.settings.fetch_timeout_ms)
    if deadline_ms is not None and now_ms >= deadline_ms:
        roles.become_resigned(core, now_ms)
        return
    membership.expire(core, now_ms)


def has_fetched_since_election(core: Core, node_id: NodeId) -> bool:
    """Then it knows the leader, and need not be told again."""
    return core.leadership is not None and node_id in core.leadership.replicas


def on_describe(core: Core, now_ms: float, ticket: Ticket, request: DescribeQuorumRequest) -> None:
    lead = core.leadership
    if lead is None:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        core.reply(ticket, DescribeQuorumResponse(error, core.followed_leader, core.epoch))
        return
    voters = tuple(_told(core, lead, voter.key, now_ms) for voter in core.voters)
    observers = tuple(
        _told(core, lead, progress.key, now_ms)
        for _, progress in sorted(lead.replicas.items())
        if not core.voters.has(progress.key)
    )
    response = DescribeQuorumResponse(
        ErrorCode.NONE,
        core.key.node_id,
        core.epoch,
        core.high_watermark,
        voters,
        observers,
        tuple((voter.node_id, voter.endpoints) for voter in core.voters),
    )
    core.reply(ticket, response)


def _told(core: Core, lead: Leadership, key: ReplicaKey, now_ms: float) -> ReplicaProgress:
    if key.is_same(core.key):
        return ReplicaProgress(core.key, core.log.end_offset, None, now_ms)
    progress = lead.progress_of(key) or Progress(key, Offset(-1))
    return ReplicaProgress(
        progress.key, progress.position, progress.last_fetch_ms, progress.last_caught_up_ms
    )

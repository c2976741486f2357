"""Voters that come and go, one at a time (KIP-853).

A change is one record with the whole new set. It counts from its append: at any moment the old and
the new set, which differ in one voter, have majorities that overlap, so two leaders can't be
elected by sets of which neither knows the other. That holds only if a second change waits until the
first is committed, and if the leader has committed something in its epoch before it makes one.

A new voter must have fetched all that was there when it was asked for: else a quorum of one that
grows to two would stand still until the newcomer has caught up. A voter is removed when a majority
of those left follows. A leader may remove itself; it leads until that is committed, then resigns.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset
from tidelog.quorum import roles
from tidelog.quorum.batches import VotersChange
from tidelog.quorum.core import Core
from tidelog.quorum.events import Ticket
from tidelog.quorum.leadership import Leadership, VoterChange
from tidelog.quorum.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from tidelog.quorum.voters import Voter

_BUSY = "another change of voters is under way"


def on_add_voter(core: Core, now_ms: float, ticket: Ticket, request: AddRaftVoterRequest) -> None:
    error, message = _refusal(core, request.cluster_id)
    if error is None and core.voters.get(request.voter.node_id) is not None:
        error, message = ErrorCode.DUPLICATE_VOTER, f"node {request.voter.node_id} is a voter"
    if error is not None:
        core.reply(ticket, AddRaftVoterResponse(error, message))
        return
    assert core.leadership is not None
    core.leadership.change = VoterChange(
        ticket,
        request,
        core.voters.with_voter(Voter(request.voter, request.endpoints)),
        now_ms + request.timeout_ms,
        core.log.end_offset,
    )


def on_remove_voter(
    core: Core, now_ms: float, ticket: Ticket, request: RemoveRaftVoterRequest
) -> None:
    error, message = _refusal(core, request.cluster_id)
    if error is None and not core.voters.has(request.voter):
        error, message = ErrorCode.VOTER_NOT_FOUND, f"node {request.voter.node_id} is no voter"
    elif error is None and len(core.voters) == 1:
        error, message = ErrorCode.INVALID_REQUEST, "the last voter can't be removed"
    if error is not None:
        core.reply(ticket, RemoveRaftVoterResponse(error, message))
        return
    assert core.leadership is not None
    core.leadership.change = VoterChange(
        ticket,
        request,
        core.voters.without(NodeId(request.voter.node_id)),
        now_ms + core.settings.voter_change_timeout_ms,
        Offset(0),
    )


def _refusal(core: Core, cluster_id: str | None) -> tuple[ErrorCode | None, str | None]:
    error = core.refusal(core.epoch, cluster_id)
    if error is not None:
        return error, None
    lead = core.leadership
    if lead is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
    if not lead.has_office:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed anything yet"
    uncommitted = core.history.latest_offset
    if lead.change is not None or (uncommitted is not None and uncommitted >= core.high_watermark):
        return ErrorCode.REQUEST_TIMED_OUT, _BUSY
    return None, None


def settle(core: Core, now_ms: float) -> None:
    """Take the change that is under way one step further, if it can."""
    lead = core.leadership
    if lead is None:
        return
    change = lead.change
    if (
        change is not None
        and change.record_offset is None
        and _is_ready(core, lead, change, now_ms)
    ):
        change.record_offset = core.append(control=VotersChange(change.voters)).base_offset
        request = change.request
        if isinstance(request, AddRaftVoterRequest) and not request.ack_when_committed:
            roles.answer_change(core, change, ErrorCode.NONE, None)
    offset = None if change is None else change.record_offset
    if change is not None and offset is not None and core.high_watermark > offset:
        lead.change = None
        roles.answer_change(core, change, ErrorCode.NONE, None)
    _leave_if_removed(core, now_ms)


def _leave_if_removed(core: Core, now_ms: float) -> None:
    """Also of a leader that was elected while its predecessor's change was not committed yet."""
    offset = core.history.latest_offset
    is_committed = offset is None or core.high_watermark > offset
    if not core.is_voter and is_committed:
        roles.become_resigned(core, now_ms)


def _is_ready(core: Core, lead: Leadership, change: VoterChange, now_ms: float) -> bool:
    since_ms = now_ms - core.settings.fetch_timeout_ms
    if isinstance(change.request, RemoveRaftVoterRequest):
        return lead.has_majority_following(change.voters, since_ms)
    progress = lead.progress_of(change.request.voter)
    if progress is None or progress.last_fetch_ms is None:
        return False
    return progress.last_fetch_ms >= since_ms and progress.position >= change.catch_up_offset


def expire(core: Core, now_ms: float) -> None:
    """Who asked is told that it takes too long. A change that is in the log goes on."""
    lead = core.leadership
    if lead is None or lead.change is None or now_ms < lead.change.deadline_ms:
        return
    change = lead.change
    roles.answer_change(core, change, ErrorCode.REQUEST_TIMED_OUT, "not caught up in time")
    if change.record_offset is None:
        lead.change = None

"""The rebalance of a classic group: begun, completed, and what leaving does to it.

`begin` opens the join phase, `complete_if_all_joined` and the timers end it with `complete`, which
starts the next generation. Members are removed here too, since that is what most rebalances are
about. Joins themselves are in `joining.py`, the sync phase in `syncing.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.groups.draft import PENDING, REBALANCE, SESSION, SYNC, Draft
from tidelog.groups.group import ClassicState, Gathering, check_step
from tidelog.groups.members import Candidate, Member, choose_protocol, metadata_for
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tidelog.wire.messages.sync_group import SyncGroupResponse


def begin(draft: Draft) -> Gathering:
    """Open the join phase; those who wait for an assignment are told to join again."""
    group, before = draft.group, draft.state
    for member_id in list(group.sync_tickets):
        refuse_sync(draft, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        draft.heard_of(member_id)
    group.unsynced.clear()
    draft.disarm(SYNC)
    group.gathering = Gathering(is_initial=before is ClassicState.EMPTY)
    check_step(before, draft.state)
    return group.gathering


def add_candidate(draft: Draft, candidate: Candidate) -> None:
    """A member has come; open the join phase for it if need be, and close it if it was the last."""
    gathering = draft.group.gathering
    if gathering is None:
        gathering = begin(draft)
        gathering.put(candidate)
        _start_clock(draft, gathering)
    else:
        is_new = candidate.member_id not in gathering.candidates
        gathering.put(candidate)
        gathering.has_newcomer |= is_new
    draft.heard_of(candidate.member_id)
    complete_if_all_joined(draft)


def _start_clock(draft: Draft, gathering: Gathering) -> None:
    timeout_ms = draft.max_rebalance_timeout_ms()
    delay_ms = min(draft.desk.settings.group_initial_rebalance_delay_ms, timeout_ms)
    gathering.is_initial = gathering.is_initial and delay_ms > 0
    if gathering.is_initial:
        gathering.initial_delay_left_ms = timeout_ms - delay_ms
        timeout_ms = delay_ms
    draft.arm(REBALANCE, timeout_ms)


def begin_without_candidate(draft: Draft) -> None:
    """Somebody has gone, or the node has started: the others have to come again."""
    if draft.group.gathering is None:
        gathering = begin(draft)
        gathering.is_initial = False
        _start_clock(draft, gathering)
    complete_if_all_joined(draft)


def complete_if_all_joined(draft: Draft) -> None:
    """Nobody is left to wait for: the next generation begins."""
    group = draft.group
    gathering = group.gathering
    if gathering is None or group.pending:
        return
    if gathering.is_initial and gathering.candidates:
        return
    if all(member_id in gathering.candidates for member_id in draft.generation.members):
        complete(draft)


def rebalance_time_is_up(draft: Draft) -> None:
    """The timer of the join phase."""
    gathering = draft.group.gathering
    if gathering is None:
        return
    settings = draft.desk.settings
    if gathering.is_initial and gathering.has_newcomer and gathering.initial_delay_left_ms > 0:
        delay_ms = min(settings.group_initial_rebalance_delay_ms, gathering.initial_delay_left_ms)
        gathering.has_newcomer = False
        gathering.initial_delay_left_ms -= delay_ms
        draft.arm(REBALANCE, delay_ms)
        return
    complete(draft)


def complete(draft: Draft) -> None:
    """Begin the next generation with those who have come, and answer them.

    Dynamic members that did not come are dropped. Static ones stay, as they may be restarting:
    their session decides. If nobody at all has come, static members are waited for once more.
    """
    group, gathering = draft.group, draft.group.gathering
    assert gathering is not None
    _forget_abandoned(draft, gathering)
    stayed = _absent_statics(draft, gathering)
    if stayed and not gathering.candidates:
        gathering.is_initial = False
        draft.arm(REBALANCE, draft.max_rebalance_timeout_ms())
        return
    group.gathering = None
    draft.disarm(REBALANCE)
    if not gathering.candidates:
        if group.is_recorded or draft.has_changed:
            next_generation = draft.generation.generation + 1
            draft.change(
                generation=next_generation, protocol=None, leader=None, members={}, is_settled=True
            )
        check_step(ClassicState.PREPARING_REBALANCE, draft.state)
        return
    _start_generation(draft, gathering.candidates, stayed)
    check_step(ClassicState.PREPARING_REBALANCE, draft.state)
    for candidate in gathering.candidates.values():
        group.unsynced[candidate.member_id] = None
        draft.heard_of(candidate.member_id)
        draft.reply(candidate.ticket, joined(draft, candidate.member_id))
    draft.arm(SYNC, draft.max_rebalance_timeout_ms())


def _start_generation(
    draft: Draft, candidates: Mapping[str, Candidate], stayed: Mapping[str, Member]
) -> None:
    group = draft.group
    supported = [candidate.protocols for candidate in candidates.values()]
    supported += [group.protocols_of(member) for member in stayed.values()]
    protocol = choose_protocol(supported)
    members = {
        member_id: Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            subscription=metadata_for(protocol, group.protocols_of(member)),
        )
        for member_id, member in stayed.items()
    }
    for candidate in candidates.values():
        members[candidate.member_id] = candidate.member(protocol)
        group.supported[candidate.member_id] = candidate.protocols
    leader = draft.generation.leader
    draft.change(
        generation=draft.generation.generation + 1,
        protocol_type=next(iter(candidates.values())).protocol_type,
        protocol=protocol,
        leader=leader if leader in candidates else next(iter(candidates)),
        members=members,
        is_settled=False,
    )


def _forget_abandoned(draft: Draft, gathering: Gathering) -> None:
    """A newcomer whose connection is gone would get partitions that nobody reads."""
    for candidate in list(gathering.candidates.values()):
        if candidate.ticket is None and candidate.member_id not in draft.generation.members:
            gathering.take(candidate.member_id)
            _forget(draft, candidate.member_id)


def _absent_statics(draft: Draft, gathering: Gathering) -> dict[str, Member]:
    """The static members that did not come; the dynamic ones are forgotten."""
    stayed = {}
    for member_id, member in draft.generation.members.items():
        if member_id in gathering.candidates:
            continue
        if member.instance_id is not None:
            stayed[member_id] = member
        else:
            _forget(draft, member_id)
    return stayed


def joined(draft: Draft, member_id: str) -> JoinGroupResponse:
    """The answer to a member of the present generation; its leader hears who the others are."""
    generation = draft.generation
    is_leader = generation.leader == member_id
    return JoinGroupResponse(
        generation_id=generation.generation,
        protocol_type=generation.protocol_type,
        protocol_name=generation.protocol or "",
        leader=generation.leader or "",
        member_id=member_id,
        members=all_members(draft) if is_leader else [],
    )


def all_members(draft: Draft) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.subscription,
        )
        for member in draft.generation.members.values()
    ]


def refuse_join(draft: Draft, ticket: int | None, member_id: str, error: ErrorCode) -> None:
    draft.reply(ticket, JoinGroupResponse(error_code=error, member_id=member_id))


def refuse_sync(draft: Draft, member_id: str, error: ErrorCode) -> None:
    """Of a member that waits for its assignment, if it does."""
    draft.reply(draft.group.sync_tickets.pop(member_id, None), SyncGroupResponse(error_code=error))


def remove_members(draft: Draft, member_ids: Iterable[str]) -> None:
    """They have left or are dead. Whoever of them still waits hears that it is not known."""
    group = draft.group
    members = dict(draft.generation.members)
    for member_id in member_ids:
        candidate = group.gathering.take(member_id) if group.gathering else None
        if candidate is not None:
            refuse_join(draft, candidate.ticket, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        refuse_sync(draft, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        members.pop(member_id, None)
        _forget(draft, member_id)
    if len(members) < len(draft.generation.members):
        leader = draft.generation.leader
        draft.change(
            members=members,
            is_settled=not members,
            leader=leader if leader in members else None,
        )
        begin_without_candidate(draft)
    else:
        complete_if_all_joined(draft)


def forget_pending(draft: Draft, member_id: str) -> None:
    """An id that was given out will not be used; perhaps it was all the others waited for."""
    draft.group.pending.pop(member_id, None)
    draft.disarm(PENDING, member_id)
    complete_if_all_joined(draft)


def _forget(draft: Draft, member_id: str) -> None:
    draft.group.supported.pop(member_id, None)
    draft.group.unsynced.pop(member_id, None)
    draft.disarm(SESSION, member_id)

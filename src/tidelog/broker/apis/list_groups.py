"""ListGroups: all groups of all shards of this node.

Very many are listed in slices (`broker/slices.py`), a few of a shard at a time, and each slice is
encoded as it comes. Then they are in order within a partition of `__consumer_offsets` only. What
was there when the shard's turn came is listed, unless it is gone by the time of its slice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from tidelog.broker.group_requests import put_to_all
from tidelog.broker.questions import Question
from tidelog.broker.state import BrokerState, Call, SlicedWait
from tidelog.groups.coordinator import Coordinator
from tidelog.groups.decision import Decision, Reply
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.pieces import Piece, PiecewiseBody
from tidelog.wire.requests import EncodedBody

GROUPS_PER_SLICE = 256
"""Groups to list in one slice: about a millisecond."""

_MOST_AT_ONCE = 4 * GROUPS_PER_SLICE


def handle(state: BrokerState, call: Call, request: ListGroupsRequest) -> Any:
    if state.coordinators.most_groups() > _MOST_AT_ONCE:
        refusal = state.coordinators.refusal()
        if refusal is not None:
            return ListGroupsResponse(error_code=refusal)
        return state.begin_slices(call, SlicedListing(state, call, request))
    return put_to_all(
        state,
        call,
        lambda coordinator, ticket: coordinator.list_groups(call.now, ticket, request),
        refuse=lambda error: ListGroupsResponse(error_code=error),
        build=_merged,
    )


def _merged(responses: list[ListGroupsResponse]) -> ListGroupsResponse:
    failed = [response for response in responses if response.error_code]
    if failed:
        return failed[0]
    groups = [group for response in responses for group in response.groups]
    return ListGroupsResponse(groups=sorted(groups, key=lambda group: group.group_id))


class SlicedListing(SlicedWait):
    """Groups of one shard after the other. Each slice is a question to its shard, so that what is
    told is committed; the last slice may be asked for before the first is."""

    def __init__(self, state: BrokerState, call: Call, request: ListGroupsRequest) -> None:
        self._coordinators = state.coordinators
        self._request = request
        self._body = PiecewiseBody(call.slot.header, ListGroupsResponse())
        self._partitions = deque(state.coordinators.partitions_led())
        self._group_ids: list[str] = []
        self._partition = -1
        self._has_begun = False

    def turn(self, number: int, now: Now) -> bool:
        if not self._has_begun:
            self._has_begun = True
            self._coordinators.begin(number, self._response)
        if not self._group_ids and self._partitions:
            self._partition = self._partitions.popleft()
            self._group_ids = self._coordinators.group_ids(self._partition)[::-1]
        group_ids = self._group_ids[: -GROUPS_PER_SLICE - 1 : -1]
        del self._group_ids[-GROUPS_PER_SLICE:]
        self._coordinators.add(number, self._question(group_ids, now), now)
        if self._group_ids or self._partitions:
            return False
        self._coordinators.end(number)
        return True

    def _question(self, group_ids: Sequence[str], now: Now) -> Question:
        def ask(coordinator: Coordinator, ticket: int) -> Decision:
            decision = coordinator.list_groups(now, ticket, self._request, group_ids)
            decision.replies = [Reply(r.ticket, self._piece(r.response)) for r in decision.replies]
            return decision

        return Question("", ask, lambda error: error, self._partition)

    def _piece(self, response: ListGroupsResponse) -> Piece:
        return self._body.piece(response, len(response.groups))

    def _response(self, replies: list[Piece | ErrorCode]) -> EncodedBody | ListGroupsResponse:
        pieces: list[Piece] = []
        for reply in replies:
            if isinstance(reply, ErrorCode):
                return ListGroupsResponse(error_code=reply)
            pieces.append(reply)
        return self._body.joined(pieces)

    def resume(self, now: Now, *, is_expired: bool) -> Any | None:
        """Expired: the node stops."""
        refused = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return refused if is_expired else None

    def abandoned(self, number: int) -> None:
        super().abandoned(number)
        self._coordinators.abandon(number)

    def describe(self) -> str:
        left = len(self._group_ids)
        return f"ListGroups waits until {left} groups and {len(self._partitions)} shards are listed"

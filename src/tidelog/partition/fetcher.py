"""All partitions followed from one node, in one fetch request after the other.

A request is one of a fetch session (`fetcher_session.py`), so it names only partitions of which
something has changed, and costs what has moved. It may wait long for its answer; who comes later,
or had to pause, goes into a second session meanwhile, on a connection of its own (`SendFetch.lane`,
since answers on one connection come in order). When both lanes are free, all go on in the first.

Each follower is in one of these places, and is looked at only when something has happened to it
(`Follower.changed_in`):

    told       in the session of one lane, with nothing else to say than what its leader was told
    ready      to be named in the next request: something else is to be said, or no lane has it
    unsettled  it waits until all that was appended is flushed, and the free lanes wait with it:
               one round of the node's group commit does for all
    paused     it had an error, and is asked for again later; no session has it until then
    throttled  a copy in the making, for which the budget is used up; in a session only while it is
               asked for, since each time it may be for another number of bytes

An answer is matched by the request's number, and what it says of a partition by the follower and
the offset that were told last; whatever is not the answer to what is being waited for is dropped.
The leader serves the partitions of a session in turn, so that a busy one can't starve the others;
without a session, who got records goes to the end of the line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset, PartitionKey, TopicId
from tidelog.partition.fetcher_session import SESSION_ERRORS, FetcherSession
from tidelog.partition.follower import Follower
from tidelog.partition.membership import Membership, pause_ms
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)

_BYTES = (bytes, bytearray, memoryview)

LANES = 2
"""Requests to one node that may be under way together."""


class SendFetch(NamedTuple):
    """To node `source`, on its connection `lane` (0 or 1); whoever sends it brings the answer back
    with its `number`."""

    source: NodeId
    number: int
    request: FetchRequest
    lane: int = 0


@dataclass(slots=True)
class _Asked:
    """A request under way, and until when it is waited for."""

    number: int
    timeout_ms: float
    is_full: bool
    reserved: dict[PartitionKey, int] = field(default_factory=dict)
    """Bytes of the throttle's budget, for those that are throttled."""


@dataclass(slots=True)
class _Lane:
    """One connection to the source: its session, and the request under way on it."""

    number: int
    session: FetcherSession
    asked: _Asked | None = None


class Fetched(NamedTuple):
    """What an answer led to: logs that want a flush, and watermarks that moved."""

    written: list[PartitionKey]
    moved: list[PartitionKey]


class Fetcher:
    """One source node's."""

    def __init__(self, source: NodeId, membership: Membership) -> None:
        self.source = source
        self._membership = membership
        self._throttle = membership.throttle
        self._followers: dict[PartitionKey, Follower] = {}
        self._changed: dict[PartitionKey, Follower] = {}
        """To be looked at: their place may be another one."""
        self._ready: dict[PartitionKey, Follower] = {}
        self._unsettled: dict[PartitionKey, Follower] = {}
        self._throttled: dict[PartitionKey, Follower] = {}
        self._paused: list[tuple[float, PartitionKey]] = []
        """A heap: when to look at whom."""
        self._lanes = [_Lane(number, FetcherSession(membership)) for number in range(LANES)]
        self._number = 0
        self._failures = 0
        self._ready_ms = -inf
        self._waits_for_flush = False
        self._look_again_ms = inf
        """While a flush is waited for: compaction may sync a log, and nobody hears of it."""

    def __len__(self) -> int:
        return len(self._followers)

    def add(self, follower: Follower) -> None:
        """It is to be asked for, if it was not; whatever else may have happened to it."""
        key = follower.key
        if self._followers.get(key) is not follower:
            self.remove(key)
            self._followers[key] = follower
            follower.changed_in = self._changed
        self._changed[key] = follower

    def remove(self, key: PartitionKey) -> None:
        if self._followers.pop(key, None) is None:
            return
        for lane in self._lanes:
            lane.session.forget(key)
        for place in (self._changed, self._ready, self._unsettled, self._throttled):
            place.pop(key, None)

    def look_at_all(self) -> None:
        """Something that concerns all of them is another one."""
        self._changed.update(self._followers)

    # --- who is where -------------------------------------------------------------------------

    def _look(self, now_ms: float) -> None:
        """Put those to whom something has happened where they belong."""
        while self._paused and self._paused[0][0] <= now_ms:
            key = heappop(self._paused)[1]
            if key in self._followers:
                self._changed[key] = self._followers[key]
        for key, follower in self._unsettled.items():
            if follower.is_settled:
                self._changed[key] = follower
        changed = list(self._changed.values())
        self._changed.clear()  # followers know this very dict
        for follower in changed:
            if self._followers.get(follower.key) is follower:
                self._place(follower, now_ms)

    def _place(self, follower: Follower, now_ms: float) -> None:
        key = follower.key
        lane = next((lane for lane in self._lanes if key in lane.session.told), None)
        if lane is not None and lane.asked is not None:
            self._changed[key] = follower  # until the answer is there
            return
        for place in (self._ready, self._unsettled, self._throttled):
            place.pop(key, None)  # to the end of the line
        if follower.ready_ms > now_ms:
            self._forget(lane, key)
            heappush(self._paused, (follower.ready_ms, key))
        elif not follower.is_settled:
            self._unsettled[key] = follower
        elif self._throttle.is_on and follower.is_throttled:
            self._forget(lane, key)
            self._throttled[key] = follower
        elif lane is None or not lane.session.knows(follower):
            self._ready[key] = follower

    @staticmethod
    def _forget(lane: _Lane | None, key: PartitionKey) -> None:
        if lane is not None:
            lane.session.forget(key)

    # --- asking -------------------------------------------------------------------------------

    def next_request(self, now_ms: float) -> SendFetch | None:
        """What to send now; none while answers or a flush are waited for, or nothing is due."""
        self._waits_for_flush = False
        lane = self._free_lane()
        if lane is None:
            return None
        self._look(now_ms)
        if now_ms < self._ready_ms:
            return None
        if self._unsettled:
            self._waits_for_flush = True
            self._look_again_ms = now_ms + self._membership.settings.fetch_wait_max_ms
            return None
        self._gather(lane)
        named = [(follower, follower.fetch()) for follower in self._ready.values()]
        self._ready = {}
        reserved = self._reserve(now_ms, named)
        session = lane.session
        if not named and not session.told:
            return None
        settings = self._membership.settings
        self._number += 1
        timeout_ms = now_ms + settings.fetch_wait_max_ms + settings.request_timeout_ms
        lane.asked = _Asked(self._number, timeout_ms, session.is_full, reserved)
        return SendFetch(self.source, self._number, session.request(named), lane.number)

    def _free_lane(self) -> _Lane | None:
        for lane in self._lanes:
            if lane.asked is None:
                return lane
        return None

    def _gather(self, lane: _Lane) -> None:
        """All that could be asked for goes into this lane's session."""
        if lane.session.is_outdated:
            self._start_over(lane)
        for other in self._lanes[lane.number + 1 :]:
            if other.asked is None and other.session.told:
                self._start_over(other)

    def _start_over(self, lane: _Lane) -> None:
        self._ready.update(lane.session.start_over())

    def _reserve(
        self, now_ms: float, named: list[tuple[Follower, FetchPartition]]
    ) -> dict[PartitionKey, int]:
        """Name those that are throttled, too, as far as there is something left of the budget."""
        reserved: dict[PartitionKey, int] = {}
        while self._throttled and self._throttle.ready_ms <= now_ms:
            key = next(iter(self._throttled))
            follower = self._throttled.pop(key)
            fetch = follower.fetch()
            size = self._throttle.reserve(now_ms, fetch.partition_max_bytes)
            fetch.partition_max_bytes = reserved[key] = size
            named.append((follower, fetch))
        return reserved

    def _pay(self, now_ms: float, asked: _Asked, topics: list[FetchableTopicResponse]) -> None:
        """Give back what was reserved and did not come. Who it was reserved for is looked at
        again."""
        if not asked.reserved:
            return
        used = 0
        for topic in topics:
            for data in topic.partitions:
                key = PartitionKey(TopicId(topic.topic_id), data.partition_index)
                if key in asked.reserved and isinstance(data.records, _BYTES):
                    used += len(data.records)
        reserved = sum(asked.reserved.values())
        self._throttle.settle(now_ms, reserved=reserved, used=used)
        known = self._followers
        self._changed.update({key: known[key] for key in asked.reserved if key in known})

    # --- the answer ---------------------------------------------------------------------------

    def answered(
        self, now: Now, number: int, response: FetchResponse, topic_ids: Mapping[str, TopicId]
    ) -> Fetched:
        """The answer to request `number`. `topic_ids` are for answers that name topics by their
        names (before v13). `DiskError` if the disk failed; what was done before that is done."""
        fetched = Fetched([], [])
        lane = self._lane_that_asked(number)
        if lane is None or lane.asked is None:
            return fetched
        asked, lane.asked = lane.asked, None
        self._pay(now.monotonic_ms, asked, response.responses)
        if response.error_code is not ErrorCode.NONE:
            lane.session.refused(response.error_code)
            self._start_over(lane)
            if asked.is_full or response.error_code not in SESSION_ERRORS:
                self._pause(now.monotonic_ms)
            return fetched
        self._failures = 0
        goes_on = lane.session.answered(response)
        for topic in response.responses:
            named = topic_ids.get(topic.topic) if topic.topic else None
            topic_id = TopicId(topic.topic_id) if named is None else named
            for data in topic.partitions:
                key = PartitionKey(topic_id, data.partition_index)
                told = lane.session.told.get(key)
                if told is None:
                    continue
                self._changed[key] = told.follower
                told.follower.take(now, data, asked=Offset(told.fetch.fetch_offset))
                self._collect(told.follower, fetched)
        if not goes_on:
            self._start_over(lane)
        return fetched

    def _lane_that_asked(self, number: int) -> _Lane | None:
        for lane in self._lanes:
            if lane.asked is not None and lane.asked.number == number:
                return lane
        return None

    @staticmethod
    def _collect(follower: Follower, fetched: Fetched) -> None:
        if follower.has_written:
            fetched.written.append(follower.key)
        if follower.has_moved:
            fetched.moved.append(follower.key)
        follower.has_written = follower.has_moved = False

    def failed(self, now_ms: float, number: int) -> None:
        """Request `number` could not be sent, or its answer will not come."""
        lane = self._lane_that_asked(number)
        if lane is not None and lane.asked is not None:
            asked, lane.asked = lane.asked, None
            self._pay(now_ms, asked, [])
            self._start_over(lane)
            self._pause(now_ms)

    def tick(self, now_ms: float) -> None:
        """An answer that is overdue is no longer waited for."""
        for lane in self._lanes:
            if lane.asked is not None and now_ms >= lane.asked.timeout_ms:
                self.failed(now_ms, lane.asked.number)

    def _pause(self, now_ms: float) -> None:
        self._failures += 1
        self._ready_ms = now_ms + pause_ms(self._failures, self._membership.settings)

    def next_deadline(self) -> float | None:
        """When to ask again, or to give up waiting. None if something else must happen first."""
        deadlines = [lane.asked.timeout_ms for lane in self._lanes if lane.asked is not None]
        if self._waits_for_flush:
            deadlines.append(self._look_again_ms)
        elif len(deadlines) < LANES:
            soonest = max(self._soonest(), self._ready_ms)
            if -inf < soonest < inf:
                deadlines.append(soonest)
        return min(deadlines, default=None)

    def _soonest(self) -> float:
        """When there is something to ask for on a lane that is free, if nothing else is waited
        for."""
        has_told = any(lane.asked is None and lane.session.told for lane in self._lanes)
        if self._ready or self._unsettled or has_told:
            return -inf
        paused_ms = self._paused[0][0] if self._paused else inf
        return min(paused_ms, self._throttle.ready_ms) if self._throttled else paused_ms

    # --- looking at it ------------------------------------------------------------------------

    def validate(self) -> None:
        """Everybody is somewhere, and who has something to tell is not taken for told."""
        paused = {key for _, key in self._paused}
        waiting = (self._changed, self._ready, self._unsettled, self._throttled, paused)
        told = {key: lane for lane in self._lanes for key in lane.session.told}
        for key, follower in self._followers.items():
            if any(key in place for place in waiting):
                continue
            assert key in told, f"{follower.name} is not asked for"
            asked = told[key].asked
            if asked is None or key not in asked.reserved:
                assert told[key].session.knows(follower), f"{follower.name} has more to say"
        assert all(key in self._followers for key in told)

"""From a frame to its handler, in the order in which a client may count on it.

A client may send a request before the one ahead of it is answered. It still expects that a read
sees what the writes ahead of it on the same connection did. So:

- a request is not handled before every unfinished write ahead of it on its connection is answered;
- but a Produce is handled at once behind other Produces, and shares their flush, and so is an
  OffsetCommit behind other OffsetCommits.

A request that waits for somebody else holds nobody back: a Fetch waits for records, a member's
JoinGroup and SyncGroup for the other members. Apache Kafka handles one request of a connection at a
time, which is stricter; `docs/decisions/0025` says why this is enough. What nodes ask one another
is exempt: a heartbeat must not wait for a topic's creation.

A member of a cluster that has just started knows only what its own directory says, which may be old
or nothing. Until it has caught up with the cluster's metadata, clients' requests are held, for
`OPENING_PATIENCE_MS` at most: then the connection is closed, and the client tries another node or
comes back. What the member needs to get there is served at once: what nodes ask one another, what
is meant for the controller, and what tells how the voters are doing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.broker.apis.api_versions import describe_versions
from tidelog.broker.apis.fetch import is_from_follower
from tidelog.broker.apis.table import Handler
from tidelog.broker.apis.versions import SERVED
from tidelog.broker.cluster_member import ClusterMember
from tidelog.broker.connections import Connection, Connections, Slot
from tidelog.broker.effects import Effect
from tidelog.broker.events import FrameReceived
from tidelog.broker.forwarding import FORWARDED
from tidelog.broker.quorum_requests import is_for_quorum, may_be_for_quorum
from tidelog.broker.state import CLOSE, NO_RESPONSE, PARKED, BrokerState, Call
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.safeguards import Safeguard
from tidelog.wire.decoding import Decoder
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.requests import (
    API_VERSIONS,
    OFFSET_COMMIT,
    PRODUCE,
    RequestHeader,
    UnknownVersion,
    body_decoder,
    decode_header,
    encode_response,
)

_NO_WRITES = frozenset((1, 2, 11, 14))
"""Fetch, ListOffsets, JoinGroup, SyncGroup: who comes behind one of them need not wait for it."""

_SERIES = frozenset((PRODUCE, OFFSET_COMMIT))
"""Writes that are handled at once behind writes of their own kind."""

_LOCAL = frozenset((0, 2, 8, 9, 11, 12, 13, 14, 18, 68))
"""Produce, ListOffsets, OffsetCommit, OffsetFetch, JoinGroup, Heartbeat, LeaveGroup, SyncGroup,
ApiVersions, ConsumerGroupHeartbeat."""

OPENING_PATIENCE_MS = 3_000.0
"""How long a client's request waits for a starting node. Longer than most nodes take, and less
than clients wait before they believe that nobody is there."""

_NOT_OPEN = "this node has not caught up with its cluster yet"


class Route(NamedTuple):
    """One API at one version: what reads its requests, and what handles them."""

    decode: Decoder
    handle: Handler
    is_between_nodes: bool
    may_go_elsewhere: bool
    """To the quorum of the metadata log, or to the controller."""
    is_local: bool
    """Concerns partitions and groups of this node only, nothing of the cluster."""


class Requests:
    """All requests that come in on the node's connections."""

    def __init__(
        self,
        connections: Connections,
        state: BrokerState,
        member: ClusterMember | None,
        handlers: Mapping[int, Handler],
    ) -> None:
        self._connections = connections
        self._state = state
        self._member = member
        self._handlers = handlers
        self._routes: dict[tuple[int, int], Route] = {}
        """By API and version, as they are first asked for."""
        self._keeps_order = Safeguard.REQUESTS_IN_ORDER in state.safeguards
        waits = Safeguard.PRESENT_BEFORE_SERVING in state.safeguards
        self._is_open = member is None or not waits
        self.is_quiet = False
        """All that was handled in this turn is local. The node says so at its beginning."""
        self._waiting: deque[tuple[float, Connection]] = deque()
        """For the node to serve clients; until when."""
        self.deadline_ms: float | None = None
        """When the first of them has waited for long enough."""

    def received(self, now: Now, event: FrameReceived, effects: list[Effect]) -> None:
        connection = self._connections.by_id.get(event.connection)
        if connection is None or connection.is_closing:
            return
        frame, is_kept = event.frame, connection.is_paused
        if is_kept:
            frame = memoryview(bytearray(frame))  # it was on its way, and may be held
        try:
            header, position = decode_header(frame)
            route = self._routes.get(header[:2]) or self._find_route(header)
            request = route.decode(frame, position)
        except UnknownVersion as unknown:
            self._refuse_version(connection, unknown, effects)
            return
        except DecodeError as error:
            self._connections.close(connection, f"malformed request: {error}", effects)
            return
        if route.is_between_nodes:
            connection.is_from_node = True
        slot = self._connections.take_slot(connection, header, effects)
        if connection.unfinished_writes and _must_wait(connection, header.api_key):
            if not is_kept and header.api_key == PRODUCE:  # its records are in the frame's memory
                request = route.decode(memoryview(bytearray(frame)), position)
            self._connections.hold(slot, request, effects)
        elif self._is_open or self._serves(slot, request):
            self._handle(now, slot, request, effects, route)
        else:
            self._wait_for_opening(now, slot, request, effects)

    def open(self) -> None:
        """The node has caught up: clients are served from now on."""
        self._is_open = True
        waiting, self._waiting = self._waiting, deque()
        self.deadline_ms = None
        self._connections.released += [each for _, each in waiting if not each.is_closing]

    def tick(self, now: Now, effects: list[Effect]) -> None:
        """Send those away who have waited long enough for the node to catch up."""
        while self._waiting and self._waiting[0][0] <= now.monotonic_ms:
            _, connection = self._waiting.popleft()
            self._connections.close(connection, _NOT_OPEN, effects)
        self.deadline_ms = self._waiting[0][0] if self._waiting else None

    def release(self, now: Now, effects: list[Effect]) -> None:
        """Handle what was held and need not be any longer."""
        released, self._connections.released = self._connections.released, []
        for connection in released:
            held = connection.held
            while held and not connection.is_closing:
                slot, request = held[0]
                if connection.unfinished_writes and _must_wait(connection, slot.header.api_key):
                    break
                if not self._serves(slot, request):
                    self._await_opening(now, connection)
                    break
                held.popleft()
                self._handle(now, slot, request, effects, self._routes[slot.header[:2]])
            if connection.is_paused:
                self._connections.resume_reading(connection, effects)

    def answer(self, slot: Slot, response: Any, effects: list[Effect]) -> None:
        if not slot.connection.is_closing:
            parts: Any = encode_response(slot.header, response)
            self._connections.answer(slot, parts, effects)

    def _serves(self, slot: Slot, request: Any) -> bool:
        """Some requests are served also by a node that has not caught up with its cluster."""
        api_key = slot.header.api_key
        if self._is_open or slot.connection.is_from_node:
            return True
        if api_key == API_VERSIONS or api_key in FORWARDED or is_for_quorum(api_key, request):
            return True
        return isinstance(request, FetchRequest) and is_from_follower(request)

    def _wait_for_opening(self, now: Now, slot: Slot, request: Any, effects: list[Effect]) -> None:
        """A Produce can't be held, since its records are in the memory of its frame."""
        connection = slot.connection
        if slot.header.api_key == PRODUCE:
            self._connections.close(connection, _NOT_OPEN, effects)
            return
        if not connection.held:
            self._await_opening(now, connection)
        self._connections.hold(slot, request, effects)

    def _await_opening(self, now: Now, connection: Connection) -> None:
        self._waiting.append((now.monotonic_ms + OPENING_PATIENCE_MS, connection))
        self.deadline_ms = self._waiting[0][0]

    def _find_route(self, header: RequestHeader) -> Route:
        api_key = header.api_key
        served = SERVED.get(api_key)
        if served is None or not served.has_version(header.api_version):
            raise UnknownVersion(header)
        if header.api_version < served.first_handled:
            raise DecodeError(f"{served.name} v{header.api_version} is not supported")
        is_member = self._member is not None
        route = self._routes[header[:2]] = Route(
            body_decoder(header),
            self._handlers[api_key],
            is_between_nodes=not served.is_advertised,
            may_go_elsewhere=is_member and (api_key in FORWARDED or may_be_for_quorum(api_key)),
            is_local=api_key in _LOCAL,
        )
        return route

    def _handle(
        self, now: Now, slot: Slot, request: Any, effects: list[Effect], route: Route
    ) -> None:
        if not route.is_local:
            self.is_quiet = False
        call = Call(now, slot)
        response = self._ask_elsewhere(call, request) if route.may_go_elsewhere else None
        if response is None:
            response = route.handle(self._state, call, request)
        if response is PARKED:
            api_key = slot.header.api_key
            if api_key not in _NO_WRITES:
                self._state.flushing.write_waits(slot.connection)
                if self._keeps_order and not slot.connection.is_from_node:
                    self._connections.write_waits(slot, effects, mutes=api_key not in _SERIES)
        elif response is NO_RESPONSE:
            self._connections.withdraw(slot, effects)
        elif response is CLOSE:
            self._connections.close(slot.connection, "a produce with acks=0 failed", effects)
        else:
            self.answer(slot, response, effects)

    def _ask_elsewhere(self, call: Call, request: Any) -> Any | None:
        """The quorum here, or the controller; None if the request is for the broker after all."""
        header, member = call.slot.header, self._member
        assert member is not None
        if is_for_quorum(header.api_key, request):
            return member.receive(call, request)
        if header.api_key in FORWARDED and self._state.active_controller is None:
            return member.forwarding.forward(call, request, header.api_version)
        return None

    def _refuse_version(
        self, connection: Connection, unknown: UnknownVersion, effects: list[Effect]
    ) -> None:
        """ApiVersions is answered in version 0 with the list; anything else ends the connection,
        since no body could be read by a client that speaks a version we don't know."""
        header = unknown.header
        if header.api_key != API_VERSIONS:
            self._connections.close(connection, str(unknown), effects)
            return
        oldest = RequestHeader(API_VERSIONS, 0, header.correlation_id, None)
        slot = self._connections.take_slot(connection, oldest, effects)
        self.answer(slot, describe_versions(ErrorCode.UNSUPPORTED_VERSION), effects)


def _must_wait(connection: Connection, api_key: int) -> bool:
    """With an unfinished write ahead."""
    if connection.is_from_node:
        return False
    is_of_series = api_key in _SERIES and api_key == connection.unfinished_api
    return not is_of_series or bool(connection.held)

"""The node: everything a broker does, as one deterministic machine.

`start` recovers from the disk; `step` takes one event and gives the effects it leads to. A step
ends the same way whatever began it: waiting requests whose partitions moved are woken, and a flush
is started if something is dirty and none is under way.

The clean mark: a file written as the last act of a clean stop and deleted as the first act of a
start. Without it the logs are recovered, and every partition gets a new leader epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tidelog.broker.apis.api_versions import describe_versions
from tidelog.broker.apis.table import HANDLERS, Handler
from tidelog.broker.apis.versions import SERVED
from tidelog.broker.cleaning import CleaningSchedule
from tidelog.broker.cluster_member import ClusterMember
from tidelog.broker.cluster_start import start_member
from tidelog.broker.configuration import NodeConfig
from tidelog.broker.connections import Connection, Connections, Slot
from tidelog.broker.effects import Announce, Effect, Report, Stop
from tidelog.broker.events import (
    ConnectionClosed,
    ConnectionOpened,
    Event,
    FlushDone,
    FrameReceived,
    PeerAnswered,
    PeerFailed,
    StopRequested,
    Tick,
)
from tidelog.broker.forwarding import FORWARDED
from tidelog.broker.last_life import write_clean_mark
from tidelog.broker.peers import Peers
from tidelog.broker.pending import Row
from tidelog.broker.quorum_requests import is_for_quorum
from tidelog.broker.start import load_groups, recover
from tidelog.broker.state import CLOSE, NO_RESPONSE, PARKED, BrokerState, Call
from tidelog.log.disk import Disk, DiskError, DiskFull
from tidelog.log.log import Log
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import Image
from tidelog.metadata.snapshot import difference
from tidelog.model.clock import Now, earliest
from tidelog.model.errors import ErrorCode
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.wire.errors import DecodeError
from tidelog.wire.requests import (
    API_VERSIONS,
    RequestHeader,
    UnknownVersion,
    decode_body,
    decode_header,
    encode_response,
)
from tidelog.zookeeper.requests import ZooKeeperSpoke

_LEAVING_MS = 10_000.0
"""How long a node that stops waits for the cluster to take over what it leads."""

_HOUSEKEEPING_MS = 1000
"""How often flushed marks are written and idle connections looked for."""


class Node:
    """One broker without I/O."""

    state: BrokerState
    """All machines of the node, from its start on."""

    def __init__(
        self,
        config: NodeConfig,
        disk: Disk,
        random: Random,
        *,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
        handlers: Mapping[int, Handler] = HANDLERS,
    ) -> None:
        self._handlers = handlers
        self._config = config
        self._disk = disk
        self._random = random
        self._safeguards = safeguards
        self._connections = Connections(
            max_in_flight=config.settings.max_inflight_requests_per_connection
        )
        self._peers = Peers(config.node_id)
        self._member: ClusterMember | None = None
        self._has_started = False
        self._is_announced = False
        self._leave_by_ms: float | None = None
        """When to stop at the latest, if this node is leaving its cluster."""
        self._cleaning: CleaningSchedule | None = None
        self._is_stopped = False
        self._is_read_only = False
        self._housekeeping_ms = 0.0

    # --- the interface ------------------------------------------------------------------------

    def start(self, now: Now) -> list[Effect]:
        """Recover from the disk. `StartRefused` or `DiskError` if the node can't serve from it."""
        effects: list[Effect] = []
        if self._config.is_member:
            self.state, self._member = start_member(
                self._config,
                self._disk,
                self._random,
                self._peers,
                now=now,
                safeguards=self._safeguards,
            )
        else:
            self.state, reports = recover(
                self._config, self._disk, self._random, now=now, safeguards=self._safeguards
            )
            effects += [Report("warning", text) for text in reports]
            effects.append(Announce())
        self._has_started = True
        self._housekeeping_ms = now.monotonic_ms + _HOUSEKEEPING_MS
        self._cleaning = CleaningSchedule(self.state, now)
        if self._member is not None:
            self._settle(now, effects)
        return effects

    def step(self, now: Now, event: Event) -> list[Effect]:
        """What happens because of `event`."""
        effects: list[Effect] = []
        if self._is_stopped:
            return effects
        if self._member is not None:
            self._member.begin(now)
        if type(event) is FrameReceived:
            self._on_frame(now, event, effects)
        elif type(event) is FlushDone:
            self._on_flush_done(now, event, effects)
        elif type(event) is ConnectionOpened:
            self._connections.opened(event.connection, peer=event.peer, now_ms=now.monotonic_ms)
        elif type(event) is ConnectionClosed:
            self._on_connection_closed(event)
        elif type(event) is Tick:
            self._on_tick(now, effects)
        elif type(event) is PeerAnswered:
            self._peers.answered(now, event)
        elif type(event) is PeerFailed:
            self._peers.failed(now, event)
        elif type(event) is ZooKeeperSpoke:
            if self._member is not None:
                self._member.hear(now, event.word)
        elif type(event) is StopRequested:
            self._on_stop(now, effects)
        if not self._is_stopped:
            self._settle(now, effects)
        return effects

    def next_deadline(self) -> float | None:
        """When `Tick` is due, in monotonic milliseconds; None if nothing waits for time."""
        if self._is_stopped:
            return None
        state = self.state
        return earliest(
            self._housekeeping_ms,
            state.pending.next_deadline(),
            state.coordinators.deadline_ms,
            None if self._is_read_only else self.cleaning.deadline_ms,
            None if self._member is None else self._member.next_deadline(),
            self._leave_by_ms,
        )

    def validate(self) -> None:
        """The invariants of everything in the node."""
        if not self._has_started or self._is_stopped:
            return
        state = self.state
        state.image.validate()
        if state.active_controller is not None:
            state.active_controller.validate()
        if self._member is not None:
            self._member.journal.validate()
        state.replicas.validate()
        state.sessions.validate()
        state.coordinators.validate()
        self._connections.validate()

    def describe(self) -> dict[str, object]:
        """The node for people: one view for logs, tools and failure reports."""
        state = self.state
        return {
            "node_id": self._config.node_id,
            "cluster_id": state.image.cluster_id,
            "storage_error": state.storage_error,
            "partitions": state.replicas.describe(),
            "connections": self._connections.describe(),
            "pending": state.pending.describe(),
            "groups": state.coordinators.describe(),
            "flushing": state.flushing.describe(),
            **({} if self._member is None else {"cluster": self._member.describe()}),
        }

    @property
    def is_serving(self) -> bool:
        """Clients may come."""
        return self._has_started and (self._member is None or self._member.is_serving)

    @property
    def cleaning(self) -> CleaningSchedule:
        assert self._cleaning is not None, "the node has not started"
        return self._cleaning

    # --- requests -----------------------------------------------------------------------------

    def _on_frame(self, now: Now, event: FrameReceived, effects: list[Effect]) -> None:
        connection = self._connections.get(event.connection)
        if connection is None:
            return
        try:
            header, position = decode_header(event.frame)
            served = SERVED.get(header.api_key)
            if served is None or not served.has_version(header.api_version):
                raise UnknownVersion(header)
            if header.api_version < served.first_handled:
                raise DecodeError(f"{served.name} v{header.api_version} is not supported")
            request = decode_body(header, event.frame, position)
        except UnknownVersion as unknown:
            self._refuse_version(connection, unknown, effects)
            return
        except DecodeError as error:
            self._connections.close(connection, f"malformed request: {error}", effects)
            return
        slot = self._connections.take_slot(connection, header, effects)
        response = self._handle(Call(now, slot), request)
        if response is PARKED:
            return
        if response is NO_RESPONSE:
            self._connections.withdraw(slot, effects)
        elif response is CLOSE:
            self._connections.close(connection, "a produce with acks=0 failed", effects)
        else:
            self._answer(slot, response, effects)

    def _handle(self, call: Call, request: Any) -> Any:
        header, member = call.slot.header, self._member
        if member is not None:
            if is_for_quorum(header.api_key, request):
                return member.receive(call, request)
            if header.api_key in FORWARDED and self.state.active_controller is None:
                return member.forwarding.forward(call, request, header.api_version)
        return self._handlers[header.api_key](self.state, call, request)

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
        self._answer(slot, describe_versions(ErrorCode.UNSUPPORTED_VERSION), effects)

    def _answer(self, slot: Slot, response: Any, effects: list[Effect]) -> None:
        if not slot.connection.is_closing:
            parts: Any = encode_response(slot.header, response)
            self._connections.answer(slot, parts, effects)

    def _on_connection_closed(self, event: ConnectionClosed) -> None:
        for slot in self._connections.closed(event.connection):
            self.state.pending.remove_slot(slot)
        node_id = self.state.heard_on.pop(event.connection, None)
        if node_id is not None and self.state.active_controller is not None:
            self.state.active_controller.lost_touch(node_id)

    # --- waking -------------------------------------------------------------------------------

    def _settle(self, now: Now, effects: list[Effect]) -> None:
        """The end of every step: wake who waits for what moved, then flush what is dirty."""
        state = self.state
        if self._member is not None:
            self._settle_member(now, self._member, effects)
            if self._is_stopped:
                return
        if state.replicas.sync_failure is not None:
            state.fail_storage(state.replicas.sync_failure)
        if state.storage_error is not None and not self._is_read_only:
            self._go_read_only(now, effects)
        self._wake(now, effects)
        if self._member is not None and self._may_go(now, self._member):
            self._finish_leaving(now, self._member, effects)
        elif not state.node_is_read_only:
            self._start_flush(now, effects)
        effects += self._peers.take_effects()
        if self._member is not None:
            effects += self._member.journal.take_effects()

    def _settle_member(self, now: Now, member: ClusterMember, effects: list[Effect]) -> None:
        """Metadata first, since everything else goes by it; and again, if settling decided some."""
        failure = member.journal.failure or self.state.storage_error
        if failure is not None:
            is_disk = not self._config.uses_zookeeper or member.journal.failure is None
            what = "the disk failed" if is_disk else "the metadata in ZooKeeper can't be used"
            self._give_up(f"{what} ({failure}): see to it, then start the node again", effects)
            return
        journal = member.journal
        self._apply_committed(now, effects)
        committed = journal.committed_offset
        member.settle(now)
        if journal.committed_offset != committed or self.state.has_lost_office:
            self._apply_committed(now, effects)
        effects += [Report("warning", text) for text in (*member.reports, *journal.reports)]
        member.reports, journal.reports = [], []
        if member.refusals.expelled is not None:
            self._give_up(member.refusals.expelled, effects)
        elif member.is_serving and not self._is_announced:
            self._is_announced = True
            effects.append(Announce())

    def _start_flush(self, now: Now, effects: list[Effect]) -> None:
        """A log may have to write something first, and that may fail."""
        state = self.state
        try:
            flush = state.flushing.start(state.journal)
        except DiskError as error:
            state.fail_storage(error)
            self._go_read_only(now, effects)
            self._wake(now, effects)
            return
        if flush is not None:
            effects.append(flush)

    def _wake(self, now: Now, effects: list[Effect]) -> None:
        state = self.state
        while state.advanced:
            leaders, state.advanced = state.advanced, {}
            for leader in leaders:
                state.coordinators.advanced(leader)
                for row in state.pending.waiting_for(leader.key):
                    self._resume(row, now, effects)
        for number, response in state.coordinators.take_completed():
            self._complete(number, response, effects)
        completed, state.completed = state.completed, []
        for number, response in completed:
            self._complete(number, response, effects)

    def _complete(self, number: int, response: Any, effects: list[Effect]) -> None:
        """The answer to a row, from a coordinator or from another node."""
        row = self.state.pending.take(number)
        if row is not None:
            self._end_wait(row, response, effects)

    def _end_wait(self, row: Row, response: Any, effects: list[Effect]) -> None:
        """A row that is no longer waiting gets its response, or is sent away without one."""
        if response is CLOSE:
            self._connections.close(row.slot.connection, "no answer from another node", effects)
        else:
            self._answer(row.slot, response, effects)

    def _resume(
        self, row: Row, now: Now, effects: list[Effect], *, is_expired: bool = False
    ) -> None:
        pending = self.state.pending
        if row not in pending:
            return
        response = row.wait.resume(now, is_expired=is_expired)
        if response is None:
            assert not is_expired, "an expired request must be answered"
            return
        pending.remove(row)
        self._end_wait(row, response, effects)

    def _on_tick(self, now: Now, effects: list[Effect]) -> None:
        if self._member is not None:
            self._member.tick(now)
        for row in self.state.pending.expired(now.monotonic_ms):
            self._resume(row, now, effects, is_expired=True)
        groups_ms = self.state.coordinators.deadline_ms
        if groups_ms is not None and now.monotonic_ms >= groups_ms:
            self.state.coordinators.tick(now)
        if not self._is_read_only and now.monotonic_ms >= self.cleaning.deadline_ms:
            self._clean(now, effects)
        if now.monotonic_ms >= self._housekeeping_ms:
            self._housekeeping_ms = now.monotonic_ms + _HOUSEKEEPING_MS
            self._keep_house(now, effects)

    def _clean(self, now: Now, effects: list[Effect]) -> None:
        try:
            effects += [Report("warning", text) for text in self.cleaning.turn(now)]
        except DiskError as error:
            self.state.fail_storage(error)

    def _keep_house(self, now: Now, effects: list[Effect]) -> None:
        state = self.state
        touched, state.touched = state.touched, {}
        for leader in touched:
            if not (state.node_is_read_only or leader.is_gone):
                self._checkpoint(leader.log)
                if leader.log.has_overtaken_mark:
                    state.flushing.touch(leader)
            effects += [Report("warning", text) for text in leader.take_reports()]
        if not state.node_is_read_only:
            self._checkpoint_journal()
            self._keep_snapshot(now)
            state.replicas.open_rest()
            state.roles_changed()
        idle_ms = self._config.settings.connections_max_idle_ms
        self._connections.close_idle(now.monotonic_ms, idle_ms, effects)

    def _checkpoint_journal(self) -> None:
        try:
            if self.state.journal.checkpoint():
                self.state.flushing.touch_journal()
        except DiskError as error:
            self.state.fail_storage(error)

    def _keep_snapshot(self, now: Now) -> None:
        """Nobody waits for it, so a full disk is no error here."""
        if self._member is None:
            return
        try:
            self._member.journal.keep_snapshot(self.state.image, now)
        except DiskFull:
            pass
        except DiskError as error:
            self.state.fail_storage(error)

    def _checkpoint(self, log: Log) -> None:
        try:
            log.checkpoint()
        except DiskError as error:
            self.state.fail_storage(error)

    # --- flushing -----------------------------------------------------------------------------

    def _on_flush_done(self, now: Now, event: FlushDone, effects: list[Effect]) -> None:
        state = self.state
        flush_round = state.flushing.finish(event.round)
        if flush_round is None:
            return
        if event.error is not None:
            if Safeguard.FSYNC_ERROR_IS_FATAL not in self._safeguards:
                state.flushing.give_back(flush_round)
                return
            state.fail_storage(event.error)
            return
        for leader, ticket in flush_round.leaders:
            if not leader.is_gone:
                leader.flushed(ticket)
                state.advanced[leader] = None
                state.touched[leader] = None
                if leader.log.has_new_files:
                    state.flushing.touch(leader)
        if flush_round.journal is not None:
            state.journal.flushed(flush_round.journal, now)
            if self._member is None:
                self._apply_committed(now, effects)

    def _apply_committed(self, now: Now, effects: list[Effect]) -> None:
        """Committed metadata becomes the node's image; who waited for it is answered."""
        state = self.state
        restored = None if self._member is None else self._member.journal.take_restored()
        if restored is not None:
            self._follow_image(now, restored, difference(state.image, restored), effects)
        records = state.journal.take_committed()
        if records:
            self._follow_image(now, *state.image.replay(records), effects)
        for row in state.pending.committed(state.journal.committed_offset):
            self._resume(row, now, effects)
        if state.has_lost_office:
            state.has_lost_office = False
            for row in state.pending.waiting_for_metadata():
                self._resume(row, now, effects, is_expired=True)
        if state.image_waits_due:
            state.image_waits_due = False
            for row in state.pending.waiting_for_image():
                self._resume(row, now, effects)

    def _follow_image(self, now: Now, image: Image, delta: Delta, effects: list[Effect]) -> None:
        """What the cluster has agreed on is another now."""
        state = self.state
        state.image = image
        directories = state.replicas.apply(image, delta, now_ms=now.monotonic_ms)
        state.flushing.touch_directories(directories)
        state.roles_changed()
        effects += [Report("error", text) for text in load_groups(state, now)]
        state.image_waits_due = True

    def _go_read_only(self, now: Now, effects: list[Effect]) -> None:
        """After a failed fsync nothing is acknowledged. What was flushed before stays readable."""
        state = self.state
        self._is_read_only = True
        why = state.storage_error
        effects.append(
            Report("error", f"the disk failed ({why}): read only until the node is restarted")
        )
        for row in state.pending.rows():
            self._resume(row, now, effects)
        state.coordinators.refuse_all()

    # --- stopping -----------------------------------------------------------------------------

    def _on_stop(self, now: Now, effects: list[Effect]) -> None:
        """A member of a cluster first gives away what it leads."""
        member = self._member
        if member is None:
            self._finish(now, effects)
        elif self._leave_by_ms is None:
            self._leave_by_ms = now.monotonic_ms + _LEAVING_MS
            member.leave(now)
            if not member.has_left:
                waited_s = _LEAVING_MS / 1000
                text = f"stopping: waits up to {waited_s:.0f} s for others to lead what it leads"
                effects.append(Report("info", text))

    def _give_up(self, why: str, effects: list[Effect]) -> None:
        """A member that can't keep its promises must be gone before it breaks one: what it leads is
        in better hands with the others."""
        self._is_stopped = True
        effects.append(Stop(why))

    def _may_go(self, now: Now, member: ClusterMember) -> bool:
        """The cluster lets it go, or there is none, or it takes too long."""
        if self._leave_by_ms is None:
            return False
        is_late = now.monotonic_ms >= self._leave_by_ms
        return member.has_left or member.has_nobody_to_leave(now) or is_late

    def _finish_leaving(self, now: Now, member: ClusterMember, effects: list[Effect]) -> None:
        """Not while a flush is under way: were it to fail, the last one might succeed."""
        if self.state.flushing.under_way is None:
            if not member.has_left:
                is_alone = member.has_nobody_to_leave(now)
                why = "no majority of the cluster answers" if is_alone else "it takes too long"
                effects.append(Report("warning", f"{why}: stops without handing over"))
            member.journal.resign(now)
            effects += self._peers.take_effects()
            self._finish(now, effects)

    @property
    def _knows_its_logs(self) -> bool:
        """All that a crash may have left in them was looked at: a member that was never let in does
        not even know which logs it keeps."""
        replicas = self.state.replicas
        is_let_in = self._member is None or self._is_announced
        return (is_let_in or replicas.opens_clean) and not replicas.has_unopened

    def _finish(self, now: Now, effects: list[Effect]) -> None:
        """Flush, answer who waited for that, send the rest home, leave the clean mark."""
        state = self.state
        is_clean = not state.node_is_read_only and self._knows_its_logs
        self.cleaning.stop()
        try:
            for leader in list(state.replicas.by_key.values()):
                if is_clean:
                    leader.close_cleanly()
                    state.advanced[leader] = None
            if is_clean:
                state.journal.close_cleanly()
                self._apply_committed(now, effects)
        except DiskError as error:
            is_clean = False
            effects.append(Report("error", f"the logs could not be closed cleanly: {error}"))
        self._wake(now, effects)
        for row in state.pending.rows():
            self._resume(row, now, effects, is_expired=True)
        if is_clean:
            is_clean = write_clean_mark(self._disk)
        if not is_clean:
            effects.append(Report("warning", "stopped without the clean mark"))
        self._is_stopped = True
        effects.append(Stop())

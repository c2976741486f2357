"""The node: everything a broker does, as one deterministic machine.

`start` recovers from the disk. Then the node lives in turns: `receive` takes one event and returns
the effects it leads to at once; after all events of the turn `settle` returns those that they lead
to together: waiting requests whose partitions moved are woken, and a flush is started if something
is dirty and none is under way. `step` is a turn of one event.

The clean mark: a file written as the last act of a clean stop and deleted as the first act of a
start. Without it the logs are recovered, and every partition gets a new leader epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tidelog.broker import follower_sessions
from tidelog.broker.apis.fetch import validate_sessions
from tidelog.broker.apis.table import HANDLERS, Handler
from tidelog.broker.cleaning import CleaningSchedule
from tidelog.broker.cluster_member import ClusterMember
from tidelog.broker.cluster_start import start_member
from tidelog.broker.configuration import NodeConfig
from tidelog.broker.connections import Connections
from tidelog.broker.effects import Announce, Effect, Report, Stop
from tidelog.broker.events import (
    ConnectionClosed,
    ConnectionOpened,
    Event,
    FlushDone,
    FrameReceived,
    PeerAnswered,
    PeerFailed,
    RangeRead,
    StopRequested,
    Tick,
)
from tidelog.broker.housekeeping import Housekeeping
from tidelog.broker.last_life import write_clean_mark
from tidelog.broker.machines import Groups, Machine, Membership
from tidelog.broker.peers import Peers
from tidelog.broker.requests import Requests
from tidelog.broker.slices import Slices
from tidelog.broker.start import load_groups, recover
from tidelog.broker.state import BrokerState
from tidelog.broker.waking import Waking
from tidelog.log.disk import Disk, DiskError
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import Image
from tidelog.metadata.reserve import ReservedDisk
from tidelog.metadata.snapshot import difference
from tidelog.model.clock import Now
from tidelog.model.compiled import mypyc_attr
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.zookeeper.requests import ZooKeeperSpoke

_LEAVING_MS = 10_000.0
"""How long a node that stops waits for the cluster to take over what it leads."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Node:
    """One broker without I/O."""

    state: BrokerState
    """All machines of the node, from its start on."""
    _requests: Requests
    _slices: Slices
    _waking: Waking
    _cleaning: CleaningSchedule
    _housekeeping: Housekeeping
    _machines: tuple[Machine, ...]

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
        self._is_stopped = False
        self._is_read_only = False
        self._is_member_quiet = False
        """Nothing of the last turn concerned the cluster."""
        self._membership: Membership | None = None
        self._now: Now | None = None
        """Of the turn that is on, or was the last."""

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
            self._take_reports(effects)
            effects.append(Announce())
        self._requests = Requests(self._connections, self.state, self._member, self._handlers)
        self._has_started = True
        self._make_machines(now)
        self.state.clock.observe(now)
        self._slices.look()
        if self._member is not None:
            self._settle(now, effects)
        return effects

    def _make_machines(self, now: Now) -> None:
        """Slices come first: like a request's handler, they find the image at all that is
        committed."""
        state, connections, member = self.state, self._connections, self._member
        self._slices = Slices(state)
        self._waking = Waking(state, connections, self._requests)
        self._cleaning = CleaningSchedule(state, now)
        self._housekeeping = Housekeeping(state, connections, member, now_ms=now.monotonic_ms)
        machines: list[Machine] = [self._slices]
        if member is not None:
            self._membership = Membership(member)
            machines += [self._membership, self._requests]
        machines += [self._waking, Groups(state.coordinators), self._cleaning, self._housekeeping]
        machines.append(state.flushing)
        self._machines = tuple(machines)

    def step(self, now: Now, event: Event) -> list[Effect]:
        """A turn of one event."""
        effects = self.receive(now, event)
        effects += self.settle(now)
        return effects

    def receive(self, now: Now, event: Event) -> list[Effect]:
        """What happens at once because of `event`. All events of a turn have the same `now`."""
        effects: list[Effect] = []
        if self._is_stopped:
            return effects
        member = self._member
        if now is not self._now:
            self._now = now
            self._requests.is_quiet = True
            self.state.clock.observe(now)
            if member is not None:
                member.begin(now)
        if type(event) is FrameReceived:
            self._requests.received(now, event, effects)
            if member is None or not member.was_asked:
                return effects
        else:
            self._requests.is_quiet = False
            self._hear(now, event, effects)
        if member is not None and not self._is_stopped:
            self._settle_member(now, member, effects)
        return effects

    def settle(self, now: Now) -> list[Effect]:
        """The end of a turn: what its events lead to together."""
        effects: list[Effect] = []
        if not self._is_stopped:
            self._settle(now, effects)
            while self._connections.released and not self._is_stopped:
                self._requests.release(now, effects)
                self._settle(now, effects)
        return effects

    def _hear(self, now: Now, event: Event, effects: list[Effect]) -> None:
        """Whatever is no request."""
        if type(event) is FlushDone:
            self._on_flush_done(now, event, effects)
        elif type(event) is RangeRead:
            self._on_range_read(now, event, effects)
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

    def next_deadline(self) -> float | None:
        """When `Tick` is due, in monotonic milliseconds; None if nothing waits for time."""
        if self._is_stopped:
            return None
        if self._membership is not None:
            self._membership.look(may_have_changed=not self._is_member_quiet)
        deadline_ms = self._leave_by_ms
        for machine in self._machines:
            at_ms = machine.deadline_ms
            if at_ms is not None and (deadline_ms is None or at_ms < deadline_ms):
                deadline_ms = at_ms
        return deadline_ms

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
        state.reads.validate()
        state.sessions.validate()
        state.follower_sessions.validate()
        validate_sessions(state)
        follower_sessions.validate(state)
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
            "reads": state.reads.describe(),
            **({} if self._member is None else {"cluster": self._member.describe()}),
        }

    @property
    def is_serving(self) -> bool:
        """Clients may come."""
        return self._has_started and (self._member is None or self._member.is_serving)

    # --- connections --------------------------------------------------------------------------

    def _on_connection_closed(self, event: ConnectionClosed) -> None:
        for slot in self._connections.closed(event.connection):
            self.state.pending.remove_slot(slot)
        node_id = self.state.heard_on.pop(event.connection, None)
        if node_id is not None and self.state.active_controller is not None:
            self.state.active_controller.lost_touch(node_id)

    # --- waking -------------------------------------------------------------------------------

    def _settle(self, now: Now, effects: list[Effect]) -> None:
        """The end of a turn: wake who waits for what moved, then flush what is dirty."""
        state, member = self.state, self._member
        if member is not None:
            self._is_member_quiet = self._may_rest()
            if not self._is_member_quiet:
                self._settle_member(now, member, effects)
            if self._is_stopped:
                return
        if state.replicas.sync_failure is not None:
            state.fail_storage(state.replicas.sync_failure)
        if state.storage_error is not None and not self._is_read_only:
            self._go_read_only(now, effects)
        if state.replicas.directories.unsynced:
            self._slices.settle()
        self._waking.settle(now, effects)
        if state.long_requests:
            self._slices.look()
        if not state.reserve.is_whole and state.replicas.membership.has_room:
            self._housekeeping.keep_reserve(effects)
        if self._leave_by_ms is not None and self._may_go(now):
            self._finish_leaving(now, effects)
        elif state.flushing.is_dirty and state.storage_error is None:
            self._start_flush(now, effects)
        if state.reads.effects:
            effects += state.reads.take_effects()
        if state.reports:
            self._take_reports(effects)
        if self._peers.effects:
            effects += self._peers.take_effects()
        if member is not None and not self._is_member_quiet:
            effects += member.journal.take_effects()

    def _may_rest(self) -> bool:
        """A turn of requests that concern nothing of the cluster leaves nothing to do for it: what
        becomes due with time has a `Tick`, and whatever else moves is an event of its own."""
        state = self.state
        return (
            self._requests.is_quiet
            and self._is_announced
            and self._leave_by_ms is None
            and state.storage_error is None
            and not state.replicas.may_propose
        )

    def _take_reports(self, effects: list[Effect]) -> None:
        effects += self.state.reports
        self.state.reports = []

    def _settle_member(self, now: Now, member: ClusterMember, effects: list[Effect]) -> None:
        """Metadata first, since everything else goes by it; and again, if settling decided some.
        Not only at the end of a turn, but after each of its events that may move the metadata, the
        session or the office: the next request finds the image at all that is committed."""
        member.was_asked = False
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
        self._slices.look()
        if member.refusals.expelled is not None:
            self._give_up(member.refusals.expelled, effects)
        elif not self._is_announced and member.is_serving and member.has_caught_up:
            self._is_announced = True
            self._requests.open()
            effects.append(Announce())

    def _start_flush(self, now: Now, effects: list[Effect]) -> None:
        """A log may have to write something first, and that may fail."""
        state = self.state
        try:
            flush = state.flushing.start(state.journal, now)
        except DiskError as error:
            state.fail_storage(error)
            self._go_read_only(now, effects)
            self._waking.settle(now, effects)
            return
        if flush is not None:
            effects.append(flush)

    def _on_tick(self, now: Now, effects: list[Effect]) -> None:
        """Whatever is due, in the order in which the machines stand."""
        for machine in self._machines:
            machine.tick(now, effects)
        self._slices.look()

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
                try:
                    leader.flushed(ticket)  # it may delete segments, once their going is durable
                except DiskError as error:
                    state.fail_storage(error)
                    return
                state.advanced[leader] = None
                state.touched[leader] = None
                if leader.log.has_new_files:
                    state.flushing.touch(leader)
        if flush_round.journal is not None:
            state.journal.flushed(flush_round.journal, now)
            if self._member is None:
                self._apply_committed(now, effects)

    def _on_range_read(self, now: Now, event: RangeRead, effects: list[Effect]) -> None:
        """Who waited for it looks again at everything."""
        pending = self.state.pending
        for number in self.state.reads.done(event):
            row = pending.row(number)
            if row is not None:
                self._waking.resume(row, now, effects)

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
            self._waking.resume(row, now, effects)
        if state.has_lost_office:
            state.has_lost_office = False
            for row in state.pending.waiting_for_metadata():
                self._waking.resume(row, now, effects, is_expired=True)
        if state.image_waits_due:
            state.image_waits_due = False
            for row in state.pending.waiting_for_image():
                self._waking.resume(row, now, effects)

    def _follow_image(self, now: Now, image: Image, delta: Delta, effects: list[Effect]) -> None:
        """What the cluster has agreed on is another now."""
        state = self.state
        state.image = image
        directories = state.replicas.apply(image, delta, now_ms=now.monotonic_ms)
        state.flushing.touch_directories(directories)
        state.roles_changed()
        load_groups(state, now)
        state.image_waits_due = True
        self._slices.look()

    def _go_read_only(self, now: Now, effects: list[Effect]) -> None:
        """After a failed fsync nothing is acknowledged. What was flushed before stays readable."""
        state = self.state
        self._is_read_only = True
        self._cleaning.rest()
        state.flushing.rest()
        self._slices.look()
        why = state.storage_error
        effects.append(
            Report("error", f"the disk failed ({why}): read only until the node is restarted")
        )
        for row in state.pending.rows():
            self._waking.resume(row, now, effects)
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

    def _may_go(self, now: Now) -> bool:
        """The cluster lets it go, or there is none, or it takes too long."""
        member = self._member
        assert member is not None
        assert self._leave_by_ms is not None
        is_late = now.monotonic_ms >= self._leave_by_ms
        return member.has_left or member.has_nobody_to_leave(now) or is_late

    def _finish_leaving(self, now: Now, effects: list[Effect]) -> None:
        """Not while a flush is under way: were it to fail, the last one might succeed."""
        member = self._member
        assert member is not None
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
        self._cleaning.stop()
        state.reads.is_over = True
        is_clean = not state.node_is_read_only and self._knows_its_logs
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
        self._waking.settle(now, effects)
        for row in state.pending.rows():
            self._waking.resume(row, now, effects, is_expired=True)
        if is_clean:
            is_clean = write_clean_mark(ReservedDisk(self._disk, state.reserve))
        if not is_clean:
            effects.append(Report("warning", "stopped without the clean mark"))
        self._is_stopped = True
        effects.append(Stop())

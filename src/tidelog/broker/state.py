"""What the API handlers work on: the node's machines, and what is done to several at once."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Any

from tidelog.broker.cluster_place import Alone, ClusterPlace
from tidelog.broker.configuration import NodeConfig
from tidelog.broker.connections import Slot
from tidelog.broker.coordinators import Coordinators
from tidelog.broker.effects import Report
from tidelog.broker.encoded_answers import EncodedAnswers
from tidelog.broker.fetch_sessions import sessions_of_consumers, sessions_of_followers
from tidelog.broker.flushing import Flushing
from tidelog.broker.image_topics import ImageTopics
from tidelog.broker.offsets_partitions import OffsetsPartitions
from tidelog.broker.pending import Pending, Wait
from tidelog.broker.reading import Reads
from tidelog.broker.refused_batches import RefusedBatches
from tidelog.broker.replicas import Replicas
from tidelog.controller.controller import Controller
from tidelog.controller.decision import Decision
from tidelog.groups.settings import GroupSettings
from tidelog.log.disk import DiskError, DiskFull
from tidelog.metadata.image import Image
from tidelog.metadata.journal import MetadataJournal, NotController, Unreachable
from tidelog.metadata.reserve import RESERVED, Reserve
from tidelog.model.clock import Now
from tidelog.model.clock_settings import CLOCK_CONFIRMED
from tidelog.model.compiled import mypyc_attr
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ConnectionId, NodeId, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import NodeSettings
from tidelog.model.steady_clock import ClockReport, SteadyClock
from tidelog.partition.replica import Replica


@mypyc_attr(allow_interpreted_subclasses=True)
class SlicedWait(Wait):
    """A request that is too much for one step."""

    is_abandoned = False

    @abstractmethod
    def turn(self, number: int, now: Now) -> bool:
        """Do the next slice. Whether that was the last: row `number` has its answer, or waits for
        something else now."""

    def abandoned(self, number: int) -> None:
        self.is_abandoned = True


class Sentinel:
    """A handler's answer that is no response."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


PARKED = Sentinel("PARKED")
"""The request waits in `Pending`."""

NO_RESPONSE = Sentinel("NO_RESPONSE")
"""The client expects none (acks=0)."""

CLOSE = Sentinel("CLOSE")
"""All that can be said to this client is good-bye."""


@dataclass(slots=True)
class Call:
    """One request being handled: when it came, and where its answer goes."""

    now: Now
    slot: Slot


class BrokerState:
    """The node's machines. Handlers read and use them; only `Node` replaces parts of it."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        journal: MetadataJournal,
        image: Image,
        controller: Controller | None,
        replicas: Replicas,
        random: Random,
        reserve: Reserve,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    ) -> None:
        self.config = config
        self.journal = journal
        self.image = image
        """Committed facts only."""
        self.active_controller = controller
        """There is one here while this node is the controller."""
        self.safeguards = safeguards
        self.cluster: ClusterPlace = Alone(config.node_id)
        self.replicas = replicas
        self.random = random
        self.reserve = reserve
        self.pending = Pending()
        self.flushing = Flushing()
        self.reads = Reads(replicas.disk)
        slots = config.settings.max_incremental_fetch_session_cache_slots
        self.sessions = sessions_of_consumers(slots, random)
        self.follower_sessions = sessions_of_followers(random)
        self.clock = SteadyClock(_steady_ms(config, safeguards))
        self.coordinators = Coordinators(
            group_settings(config.settings),
            ImageTopics(self),
            random,
            logs=OffsetsPartitions(self),
            clock=self.clock,
            safeguards=safeguards,
        )
        self.producer_ids = range(0)
        self.refused_batches = RefusedBatches()
        self.encoded_answers = EncodedAnswers()
        self.long_requests: deque[tuple[int, SlicedWait]] = deque()
        """Requests that are dealt with in slices, by their number in `pending` (`slices.py`)."""
        self.storage_error: str | None = None
        """Why nothing may be written any more. Set once; only a restart clears it."""
        self.advanced: dict[Replica, None] = {}
        """Leaders whose watermark moved in this step: those who wait for them are to be woken."""
        self.has_lost_office = False
        """It was the controller and is not any more: its decisions may never be committed."""
        self.image_waits_due = False
        """Something that rows waiting for the image want to know."""
        self.heard_on: dict[ConnectionId, NodeId] = {}
        """Connections on which other nodes have said to the controller here that they live."""
        self.completed: list[tuple[int, Any]] = []
        """Rows in `Pending` whose answer has come from elsewhere."""
        self.reports: list[Report] = []
        """What the operator should know, found by a machine that has no effects of its own."""
        self.touched: dict[Replica, None] = {}
        """Leaders that were written, flushed or found damaged since the last housekeeping."""

    @property
    def controller(self) -> Controller:
        """Of requests that come here only on the controller."""
        assert self.active_controller is not None, "this node is not the controller"
        return self.active_controller

    def complete(self, number: int, response: Any) -> None:
        """The answer to the row of that number, whoever gave it."""
        self.completed.append((number, response))

    @property
    def node_is_read_only(self) -> bool:
        return self.storage_error is not None

    def begin_slices(self, call: Call, wait: SlicedWait) -> Sentinel:
        """Deal with the request in slices, between others."""
        self.long_requests.append((self.pending.park_on_reply(call.slot, wait), wait))
        return PARKED

    def wants_flush(self, leader: Replica) -> None:
        """Something about the leader's log is to become durable, whatever its flush policy."""
        self.touched[leader] = None
        self.flushing.touch(leader)

    def appended(self, leader: Replica) -> None:
        """Something was written to the leader's log: flush it, or let readers know."""
        self.touched[leader] = None
        role = leader.leader
        is_late = leader.waits_for_flush if role is None else role.waits_for_flush
        if is_late or leader.log.has_new_files:
            self.flushing.touch(leader, may_wait=role is not None)
        if not is_late or (role is not None and role.has_followers):
            self.advanced[leader] = None

    def roles_changed(self) -> None:
        """Metadata has given partitions another role or in-sync set: who waits is woken, and what
        a role begins with is flushed: a follower may ask for more, and a leader count it, only
        then."""
        for replica in self.replicas.take_changed():
            self.advanced[replica] = None
            self.coordinators.let_go_of_old(replica)
            log = replica.log
            if log.damage:
                self.touched[replica] = None  # to be told to the operator
            is_behind = log.flushed_offset < log.log_end_offset
            if is_behind and replica.waits_for_flush and not replica.is_gone:
                self.wants_flush(replica)

    def watch_clock(self, now: Now) -> list[ClockReport]:
        """Hear whether an operator has confirmed the clock; what is to be told of it."""
        if self.clock.is_held:
            confirmed = self.image.defaults.get(CLOCK_CONFIRMED)
            if confirmed is not None:
                self.clock.confirm(now, int(confirmed))
        return self.clock.take_reports()

    def watch_room(self) -> str | None:
        """Make the metadata's reserve again if there is room; what is to be told of it."""
        membership = self.replicas.membership
        try:
            self.reserve.make()
        except DiskError as error:
            self.fail_storage(error)
        if membership.has_room == self.reserve.is_whole:
            return None
        membership.has_room = self.reserve.is_whole
        if membership.has_room:
            return "there is room on the disk again: records are taken"
        return f"{RESERVED}. Records are refused until metadata.reserve.bytes are free again"

    def fail_storage(self, error: DiskError) -> None:
        """The disk can't be trusted with another write."""
        if self.storage_error is None:
            self.storage_error = str(error) or type(error).__name__

    def commit(self, decision: Decision[Any], now: Now) -> Offset | ErrorCode:
        """Put a decision into the metadata log; it is true once the offset is committed.

        A decision without records was made on facts that may not be committed themselves: it is
        true once they are.
        """
        if self.active_controller is None:
            return ErrorCode.NOT_CONTROLLER
        if not decision.records and self.journal.last_offset < self.journal.committed_offset:
            return self.journal.last_offset
        if self.node_is_read_only:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not decision.records:
            return self.journal.last_offset
        try:
            offset = self.journal.append(decision.records, now)
        except NotController:
            return ErrorCode.NOT_CONTROLLER
        except Unreachable:
            return ErrorCode.REQUEST_TIMED_OUT  # to be tried again, by who wants it
        except DiskFull:
            return ErrorCode.KAFKA_STORAGE_ERROR
        except DiskError as error:
            self.fail_storage(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.active_controller is not None:
            self.active_controller.appended(decision.records, offset)
        self.flushing.touch_journal()
        return offset


def _steady_ms(config: NodeConfig, safeguards: frozenset[Safeguard]) -> int:
    return config.settings.clock_steady_ms if Safeguard.STEADY_CLOCK in safeguards else 0


def group_settings(settings: NodeSettings) -> GroupSettings:
    """What the node's settings say about groups."""
    return GroupSettings(
        group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
        group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        group_max_size=settings.group_max_size,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        group_consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        group_consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        group_consumer_min_session_timeout_ms=settings.group_consumer_min_session_timeout_ms,
        group_consumer_max_session_timeout_ms=settings.group_consumer_max_session_timeout_ms,
        group_consumer_min_heartbeat_interval_ms=settings.group_consumer_min_heartbeat_interval_ms,
        group_consumer_max_heartbeat_interval_ms=settings.group_consumer_max_heartbeat_interval_ms,
        group_consumer_max_size=settings.group_consumer_max_size,
        group_consumer_assignors=tuple(settings.group_consumer_assignors.split(",")),
        group_consumer_migration_policy=settings.group_consumer_migration_policy,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
    )

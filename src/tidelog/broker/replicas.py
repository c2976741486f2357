"""The partitions this node keeps: directories on disk that follow the metadata image.

A partition is kept here if the image names this node among its replicas; each has a role
(`partition.replica`), and those that follow are gathered by the node they follow
(`partition.fetcher`). What there is to send is asked for at the end of a step (`next_fetches`,
`take_proposals`); answers come back through `fetch_answered` and `isr_answered`.

Where they lie on disk, and how they go, is in `topic_directories`.
"""

from __future__ import annotations

from itertools import islice

from tidelog.broker.topic_directories import (
    DELETED_AT_ONCE,
    TopicDirectories,
    partition_directory,
    topic_directory,
)
from tidelog.log.disk import Disk, DiskError, Syncable, SyncFailed
from tidelog.log.log import Log
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import Image, PartitionState, Resource, TopicState
from tidelog.metadata.states import BROKER
from tidelog.model.clock import earliest
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_EPOCH,
    NO_TOPIC_ID,
    LeaderEpoch,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from tidelog.model.replica_settings import FOLLOWER_RATE, LEADER_RATE
from tidelog.model.safeguards import Safeguard
from tidelog.model.settings import NodeSettings, TopicSettings, Value, recorded_settings
from tidelog.model.settings import topic_settings as resolved_settings
from tidelog.partition.following import Following
from tidelog.partition.isr import ProposeIsr
from tidelog.partition.leader import Leader
from tidelog.partition.membership import Membership, ReplicationSettings
from tidelog.partition.replica import Replica

_new_tuple = tuple.__new__  # of a named tuple, without a call of its own

OPENED_AT_ONCE = 16
"""Logs of new partitions that are made as soon as their records are committed. The logs of more are
made a few at a time, between other requests, or when somebody asks for one."""

FOUND_AT_ONCE = 32
"""Logs that are opened in one turn because requests ask for them: as many as one connection has
requests in it. Whoever asks for more is told to look for their leader again."""


def replication_settings(settings: NodeSettings) -> ReplicationSettings:
    """What the node's settings say about copies."""
    return ReplicationSettings(
        lag_time_max_ms=settings.replica_lag_time_max_ms,
        fetch_max_bytes=settings.replica_fetch_max_bytes,
        fetch_response_max_bytes=settings.replica_fetch_response_max_bytes,
        fetch_wait_max_ms=settings.replica_fetch_wait_max_ms,
        fetch_backoff_ms=settings.replica_fetch_backoff_ms,
        throttled_rate=settings.follower_replication_throttled_rate,
        leader_throttled_rate=settings.leader_replication_throttled_rate,
        selects_by_rack=settings.replica_selector == "rack",
    )


class Replicas:
    """All partitions kept here, by key and by name."""

    def __init__(
        self,
        disk: Disk,
        topic_defaults: dict[str, Value],
        *,
        membership: Membership,
        safeguards: frozenset[Safeguard],
    ) -> None:
        self.disk = disk
        self.directories = TopicDirectories(disk, safeguards=safeguards)
        self._topic_defaults = topic_defaults
        self._safeguards = safeguards
        self.membership = membership
        self.following = Following(membership)
        self.by_key: dict[PartitionKey, Replica] = {}
        self.by_name: dict[TopicPartition, Replica] = {}
        self.image = Image()
        """As of the last `apply`."""
        self.sync_failure: SyncFailed | None = None
        """A log could not be opened because of it: nothing may be written any more."""
        self.opens_clean = False
        """The logs that are there were closed cleanly."""
        self._unopened: dict[PartitionKey, tuple[TopicState, PartitionState]] = {}
        self._deferred: dict[PartitionKey, None] = {}
        """Partitions whose log is still to be opened, or made if it is new: nobody has asked for
        it."""
        self._found = 0
        """Deferred logs that were opened for requests in this turn."""
        self._crashed_in: dict[PartitionKey, LeaderEpoch] = {}
        self._may_lack: dict[PartitionKey, None] = {}
        self._changed: dict[Replica, None] = {}
        self._stirred: dict[Replica, None] = {}
        self._check_ms: float | None = None
        """When all leaders are asked whom they want in sync."""
        self._retries: dict[Replica, float] = {}
        """When a leader's proposal may be made again."""
        self._retry_ms: float | None = None
        """The soonest of `_retries`."""
        self._now_ms = 0.0

    def settings_of(self, topic: TopicState) -> TopicSettings:
        """The topic's own; else what the cluster has recorded for all nodes, so that leader and
        controller agree on how many must be in sync; else what this node was given."""
        defaults = {**self._topic_defaults, **recorded_settings(self.image.defaults, "node")}
        return resolved_settings(defaults, recorded_settings(topic.configs, "topic"))

    # --- following the image ------------------------------------------------------------------

    def open_all(self, image: Image, *, clean: bool, now_ms: float) -> list[str]:
        """At start: every partition of the image that is kept here, then the directories nobody
        asked for. Gives what the operator should know."""
        self._look_at(image, now_ms)
        reports: list[str] = []
        for topic in image.topics.values():
            for state in topic.partitions:
                if not self._is_kept(state):
                    continue
                if not clean and len(state.replicas) > 1:
                    self._crashed_in[state.key] = state.leader_epoch
                try:
                    self._open(topic, state, clean=clean)
                except DiskError as error:
                    self._note_unopened(topic, state, error)
                    reports.append(f"{state.name} can't be opened yet: {error}")
        for replica in self.by_key.values():
            reports += replica.take_reports()
        return reports + self._sweep()

    def apply(self, image: Image, delta: Delta, *, now_ms: float) -> list[Syncable]:
        """Follow committed metadata. Gives the directories whose entries must become durable with
        the next flush; whose role or watermark is another one now is in `take_changed`. What a node
        reads of the past, before it has caught up, moves nothing."""
        before, directories = self.image, self.directories
        self._look_at(image, now_ms)
        if not self.membership.is_caught_up:
            return []
        if delta.nodes:
            self._ask_all_leaders()
        self._defer(image, delta)
        for key in delta.partitions:
            topic = image.topic_by_id(key.topic_id)
            if topic is not None:
                self._follow(topic, topic.partitions[key.partition])
        configured = list(image.names) if delta.has_new_defaults else delta.configured
        for topic_id in dict.fromkeys(t for t in configured if t not in delta.created):
            self._configure(image, topic_id)
        for topic_id in delta.created:
            topic = image.topic_by_id(topic_id)
            if topic is not None and directories.exists(topic_directory(topic.name, topic_id)):
                directories.made(topic)
        for topic_id, name in delta.removed.items():
            self._remove(topic_id, name, before.topic_by_id(topic_id))
        directories.delete_doomed(DELETED_AT_ONCE)
        return directories.take_unsynced()

    def catch_up(self, *, now_ms: float) -> None:
        """The image has this life's registration, and with it all that earlier lives have seen:
        from now on it is followed. The logs are opened in slices, since after a crash each may take
        some syncs; the node stays fenced until it knows what they hold (`has_deferred`)."""
        self.membership.is_caught_up = True
        self._now_ms = now_ms
        kept = (state.key for state in self.image.partitions() if self._is_kept(state))
        self._deferred = dict.fromkeys(key for key in kept if key not in self.by_key)

    def take_changed(self) -> list[Replica]:
        """Whose role, in-sync set or watermark may be another one: those who wait for them are to
        be woken, and what a new follower has is to be flushed."""
        changed, self._changed = self._changed, {}
        return list(changed)

    def _look_at(self, image: Image, now_ms: float) -> None:
        self.image = image
        self.membership.nodes = image.nodes
        self._now_ms = now_ms
        own = image.configs_of(Resource(BROKER, str(self.membership.node_id)))
        settings, rates = self.membership.settings, {**image.defaults, **own}
        follower_rate = int(rates.get(FOLLOWER_RATE, settings.throttled_rate))
        self.membership.throttle.limit(follower_rate, now_ms)
        leader_rate = int(rates.get(LEADER_RATE, settings.leader_throttled_rate))
        self.membership.leader_throttle.limit(leader_rate, now_ms)

    def _is_kept(self, state: PartitionState) -> bool:
        return self.membership.node_id in state.replicas

    def _follow(self, topic: TopicState, state: PartitionState) -> None:
        replica = self.by_key.get(state.key)
        if not self._is_kept(state):
            self._unopened.pop(state.key, None)
            self._deferred.pop(state.key, None)
            if replica is not None:
                self._move_away(topic, replica)
        elif replica is None:
            if state.key not in self._deferred:
                self._try_open(topic, state, clean=self.opens_clean)
        else:
            if replica.follow(state, self._now_ms):
                self._changed[replica] = None
            self._place(replica)

    def _defer(self, image: Image, delta: Delta) -> None:
        """New partitions beyond the first few, and all while others are deferred; those of internal
        topics are made at once."""
        kept = [
            key
            for key, change in delta.partitions.items()
            if change.is_new and self._is_kept(change.after) and key not in self.by_key
        ]
        at_once = 0 if self._deferred else OPENED_AT_ONCE
        if len(kept) <= at_once:
            return
        topics = {key.topic_id: image.topic_by_id(key.topic_id) for key in kept}
        internal = {topic_id for topic_id, topic in topics.items() if topic and topic.is_internal}
        deferred = (key for key in kept[at_once:] if key.topic_id not in internal)
        self._deferred.update(dict.fromkeys(deferred))

    @property
    def has_deferred(self) -> bool:
        """Logs are still to be opened, or to be made."""
        return bool(self._deferred)

    def open_deferred(self, most: int) -> None:
        """Open the next of them, so many at most."""
        for key in list(islice(self._deferred, most)):
            self._open_deferred(key)

    def turn_ends(self) -> None:
        """Requests may have logs made again."""
        self._found = 0

    def _open_deferred(self, key: PartitionKey) -> Replica | None:
        del self._deferred[key]
        topic = self.image.topic_by_id(key.topic_id)
        assert topic is not None, "a topic that is removed takes its partitions along"
        replica = self._try_open(topic, topic.partitions[key.partition], clean=self.opens_clean)
        self.directories.made(topic)
        return replica

    def _place(self, replica: Replica) -> None:
        """Among those whom its role asks to be looked after."""
        self.following.place(replica)
        if replica.has_followers:
            self._stirred[replica] = None
            if self._check_ms is None:
                self._check_ms = self._now_ms + self.membership.settings.lag_time_max_ms / 2

    def let_in(self, now_ms: float) -> list[str]:
        """The cluster has let this node in: it may lead what the image says, and knows all there is
        to know about the directories it finds. Gives what the operator should know."""
        self.membership.may_lead = True
        self.opens_clean = False
        for replica in self.by_key.values():
            if replica.was_let_in(now_ms):
                self._changed[replica] = None
                self._place(replica)
        return self._sweep()

    def _sweep(self) -> list[str]:
        kept = [state.key for state in self.image.partitions() if self._is_kept(state)]
        return self.directories.sweep(self.image, frozenset(kept).__contains__)

    def session_changed(self, *, is_alive: bool) -> None:
        """The node has lost its session with the cluster, or has one again."""
        self.membership.has_session = is_alive
        for replica in self.by_key.values():
            if replica.leader is not None and replica.leader.session_changed():
                self._changed[replica] = None
        self._ask_all_leaders()

    def may_lack(self) -> list[PartitionKey]:
        """What recovery has cut by whole batches, and the cluster still counts on, though others
        may have more. And followers that are damaged: the leader has those taken out of the ISR,
        but nobody else takes them out of the ELR, and until then they can't be repaired."""
        me = self.membership.node_id
        for key in list(self._may_lack):
            replica = self.by_key.get(key)
            relied_on = () if replica is None else (*replica.state.isr, *replica.state.elr)
            if me not in relied_on or all(node_id == me for node_id in relied_on):
                del self._may_lack[key]
        waiting = [key for key in list(self.membership.awaiting_repair) if self._is_stuck(key)]
        return list(dict.fromkeys((*self._may_lack, *waiting)))

    def _is_stuck(self, key: PartitionKey) -> bool:
        """A damaged follower that can't be repaired while it is eligible."""
        replica = self.by_key.get(key)
        follower = None if replica is None else replica.follower
        if replica is None or follower is None or follower.damaged_from is None:
            del self.membership.awaiting_repair[key]
            return False
        return self.membership.node_id in replica.state.elr

    # --- the in-sync sets ---------------------------------------------------------------------

    def stir(self, replica: Replica) -> None:
        """Something has happened that may change who is in sync."""
        self._stirred[replica] = None

    def _ask_all_leaders(self) -> None:
        """Who may be in sync has changed for all of them, and no fetch will say so: a session names
        only what has changed with its follower."""
        if self._check_ms is not None:
            self._check_ms = self._now_ms

    def take_proposals(self, now_ms: float) -> list[ProposeIsr]:
        """What to ask the controller for now."""
        self._now_ms = now_ms
        if self._check_ms is not None and now_ms >= self._check_ms:
            leading = [replica for replica in self.by_key.values() if replica.has_followers]
            self._stirred.update(dict.fromkeys(leading))
            interval_ms = self.membership.settings.lag_time_max_ms / 2
            self._check_ms = now_ms + interval_ms if leading else None
        if self._retry_ms is not None and now_ms >= self._retry_ms:
            due = [replica for replica, at_ms in self._retries.items() if at_ms <= now_ms]
            for replica in due:
                del self._retries[replica]
            self._stirred.update(dict.fromkeys(due))
            self._retry_ms = min(self._retries.values(), default=None)
        if not self._stirred:
            return []
        stirred, self._stirred = self._stirred, {}
        found = (each.leader.propose(now_ms) for each in stirred if each.leader is not None)
        return [proposal for proposal in found if proposal is not None]

    def isr_answered(self, proposal: ProposeIsr, error: ErrorCode, now_ms: float) -> None:
        """The controller's word on a proposal; `NETWORK_EXCEPTION` if none came."""
        replica = self.by_key.get(proposal.key)
        if replica is None or replica.leader is None:
            return
        if replica.leader.isr_answered(proposal, error, now_ms):
            self._changed[replica] = None
        retry_ms = replica.leader.isr.next_deadline()
        if retry_ms is not None:
            self._retries[replica] = retry_ms
            self._retry_ms = earliest(self._retry_ms, retry_ms)

    @property
    def may_propose(self) -> bool:
        """Something has happened that a leader may want to tell the controller."""
        return bool(self._stirred)

    def next_deadline(self) -> float | None:
        """When there may be something to send without anything happening before."""
        return earliest(self._check_ms, self._retry_ms, self.following.next_deadline())

    # --- finding ------------------------------------------------------------------------------

    def find(
        self, topic: str, partition: int, *, topic_id: TopicId = NO_TOPIC_ID
    ) -> Replica | ErrorCode:
        """The partition by topic id, or by name where there is no id."""
        if topic_id is NO_TOPIC_ID or topic_id == NO_TOPIC_ID:
            replica = self.by_name.get(_new_tuple(TopicPartition, (topic, partition)))
        else:
            replica = self.by_key.get(PartitionKey(topic_id, partition))
        if replica is not None:
            return replica
        return self._find_unopened(topic, partition, topic_id)

    def find_leader(
        self, topic: str, partition: int, *, topic_id: TopicId = NO_TOPIC_ID
    ) -> Leader | ErrorCode:
        """The same, if it is led here."""
        replica = self.find(topic, partition, topic_id=topic_id)
        if isinstance(replica, ErrorCode):
            return replica
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if replica.leader is None else replica.leader

    def state_of(
        self, topic: str, partition: int, *, topic_id: TopicId = NO_TOPIC_ID
    ) -> PartitionState | None:
        """What the image says of a partition, kept here or not."""
        is_named = topic_id == NO_TOPIC_ID
        found = self.image.topics.get(topic) if is_named else self.image.topic_by_id(topic_id)
        is_there = found is not None and 0 <= partition < len(found.partitions)
        return found.partitions[partition] if found is not None and is_there else None

    @property
    def has_unopened(self) -> bool:
        """The disk would not open some of the logs that are kept here."""
        return bool(self._unopened)

    def validate(self) -> None:
        for key, replica in self.by_key.items():
            assert replica.key == key
            assert self.by_name[replica.name] is replica
            replica.validate()
        assert len(self.by_key) == len(self.by_name)
        self.following.validate(self.by_key)

    def describe(self) -> list[dict[str, object]]:
        return [replica.describe() for replica in self.by_key.values()]

    def _find_unopened(self, topic: str, partition: int, topic_id: TopicId) -> Replica | ErrorCode:
        """A partition whose log the disk refused to open is tried again when asked for."""
        for key, (topic_state, state) in self._unopened.items():
            if key.partition == partition and (
                topic_id == key.topic_id or topic == state.name.topic
            ):
                replica = self._try_open(topic_state, state, clean=False)
                return replica or ErrorCode.KAFKA_STORAGE_ERROR
        known = self.state_of(topic, partition, topic_id=topic_id)
        if known is not None and known.key in self._deferred:
            self._found += 1
            if self._found > FOUND_AT_ONCE:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            return self._open_deferred(known.key) or ErrorCode.KAFKA_STORAGE_ERROR
        if known is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        is_known_topic = topic_id == NO_TOPIC_ID or topic_id in self.image.names
        return (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_known_topic else ErrorCode.UNKNOWN_TOPIC_ID
        )

    # --- opening and closing ------------------------------------------------------------------

    def open_rest(self) -> None:
        """Try again what the disk would not open before: nobody may ask for a copy that follows."""
        for topic, state in list(self._unopened.values()):
            self._try_open(topic, state, clean=False)

    def _try_open(self, topic: TopicState, state: PartitionState, *, clean: bool) -> Replica | None:
        if self.sync_failure is not None:
            return None
        try:
            replica = self._open(topic, state, clean=clean)
        except DiskError as error:
            self._note_unopened(topic, state, error)
            return None
        self._changed[replica] = None
        return replica

    def _note_unopened(self, topic: TopicState, state: PartitionState, error: DiskError) -> None:
        """To be tried again, unless a sync has failed: what a second try would find in the cache
        need not be on the platter."""
        self._unopened[state.key] = (topic, state)
        if isinstance(error, SyncFailed) and self.sync_failure is None:
            self.sync_failure = error

    def _open(self, topic: TopicState, state: PartitionState, *, clean: bool) -> Replica:
        settings = self.settings_of(topic)
        directory = partition_directory(topic.name, state.key)
        self.directories.clear_for(directory)
        log = Log.open(
            self.disk,
            directory,
            settings,
            clean=clean,
            latest_epoch=state.leader_epoch,
            safeguards=self._safeguards,
        )
        replica = Replica(
            state,
            log,
            settings,
            self.membership,
            now_ms=self._now_ms,
            crashed_in=self._crashed_in.get(state.key, NO_EPOCH),
            safeguards=self._safeguards,
        )
        self._unopened.pop(state.key, None)
        if log.may_lack_records and Safeguard.CUT_TAIL_TOLD in self._safeguards:
            self._may_lack[state.key] = None
        self._deferred.pop(state.key, None)
        self.by_key[state.key] = replica
        self.by_name[state.name] = replica
        self._place(replica)
        return replica

    def _configure(self, image: Image, topic_id: TopicId) -> None:
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            settings = self.settings_of(topic)
            for state in topic.partitions:
                replica = self.by_key.get(state.key)
                if replica is not None:
                    replica.configure(settings)
                    self._changed[replica] = self._stirred[replica] = None

    def _let_go(
        self, replica: Replica, reason: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ) -> None:
        replica.removed(reason)
        self.following.place(replica)
        del self.by_key[replica.key]
        if self.by_name.get(replica.name) is replica:
            del self.by_name[replica.name]
        self._crashed_in.pop(replica.key, None)
        self._changed[replica] = None

    def _move_away(self, topic: TopicState, replica: Replica) -> None:
        """A committed record has named other nodes. They may have what somebody waits for here, so
        nobody is told that there is no such partition: that would be proof of no effect."""
        self._let_go(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.directories.doom(partition_directory(topic.name, replica.key))

    def _remove(self, topic_id: TopicId, name: str, topic: TopicState | None) -> None:
        """`topic` is as it was before its removal, if it was there."""
        for state in () if topic is None else topic.partitions:
            replica = self.by_key.get(state.key)
            if replica is not None:
                self._let_go(replica)
                self.directories.doom(partition_directory(name, state.key))
            self._unopened.pop(state.key, None)
            self._deferred.pop(state.key, None)
        self.directories.doom(topic_directory(name, topic_id))

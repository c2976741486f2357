"""From a data directory to a node's state: identity, metadata, logs, and the clean mark."""

from __future__ import annotations

from random import Random

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.last_life import ROOT, take_clean_mark
from tidelog.broker.offsets_log import OFFSETS_TOPIC
from tidelog.broker.replicas import Replicas, replication_settings
from tidelog.broker.state import BrokerState
from tidelog.broker.topic_directories import TOPICS_DIRECTORY
from tidelog.controller.configs import ELECTION_SETTINGS, decide_defaults
from tidelog.controller.controller import ClusterRules, Controller
from tidelog.controller.registry import Registration
from tidelog.controller.topics import TopicRules
from tidelog.log.disk import Disk, DiskFull
from tidelog.metadata.image import Image, Listener
from tidelog.metadata.journal import DIRECTORY as METADATA_DIRECTORY
from tidelog.metadata.journal import Journal, JournalDamaged
from tidelog.metadata.reserve import Reserve, ReservedDisk
from tidelog.metadata.vote_file import FILE as VOTE_FILE
from tidelog.model.clock import Now
from tidelog.model.cluster_settings import BOOTSTRAP_SERVERS, VOTERS
from tidelog.model.ids import NO_BROKER_EPOCH, BrokerEpoch
from tidelog.model.safeguards import Safeguard
from tidelog.model.settings import setting_named
from tidelog.partition.membership import Membership


class StartRefused(Exception):
    """The node must not serve from this directory; the message says why and what to do."""


def recover(
    config: NodeConfig,
    disk: Disk,
    random: Random,
    *,
    now: Now,
    safeguards: frozenset[Safeguard],
) -> tuple[BrokerState, list[str]]:
    """The state as the disk has it, and what the operator should know."""
    if disk.exists(f"{METADATA_DIRECTORY}/{VOTE_FILE}"):
        raise StartRefused(
            "the data directory is that of a member of a cluster: start it as before, with "
            f"{VOTERS} or {BOOTSTRAP_SERVERS}"
        )
    reserve = Reserve(disk, config.settings.metadata_reserve_bytes)
    kept = ReservedDisk(disk, reserve)
    is_clean = take_clean_mark(kept)
    kept.make_directory(METADATA_DIRECTORY)
    kept.make_directory(TOPICS_DIRECTORY)
    try:
        journal = Journal.open(kept, clean=is_clean, safeguards=safeguards)
        image, _ = Image().replay(journal.read_all())
    except JournalDamaged as damaged:
        raise StartRefused(f"{damaged}; restore {METADATA_DIRECTORY}/ from a copy") from None
    _check_identity(config, image)
    controller = make_controller(config, image, random, safeguards=safeguards)
    reports = [f"metadata: {report}" for report in journal.log.damage]
    reports += _register(config, journal, controller, now=now, is_clean=is_clean)
    replicas = Replicas(
        disk,
        dict(config.topic_defaults),
        membership=Membership(config.node_id, replication_settings(config.settings)),
        safeguards=safeguards,
    )
    reports += replicas.open_all(controller.image, clean=is_clean, now_ms=now.monotonic_ms)
    disk.directory(ROOT).sync()
    disk.directory(TOPICS_DIRECTORY).sync()
    state = BrokerState(
        config,
        journal=journal,
        image=controller.image,
        controller=controller,
        replicas=replicas,
        random=random,
        reserve=reserve,
        safeguards=safeguards,
    )
    load_groups(state, now)
    return state, reports


def make_controller(
    config: NodeConfig, image: Image, random: Random, *, safeguards: frozenset[Safeguard]
) -> Controller:
    """A controller that decides on `image`, by this node's settings."""
    settings = config.settings
    rules = TopicRules(
        default_partitions=settings.num_partitions,
        max_partitions=settings.max_partitions,
        default_replication_factor=settings.default_replication_factor,
        internal_factors={OFFSETS_TOPIC: settings.offsets_topic_replication_factor},
    )
    interval_ms = settings.leader_imbalance_check_interval_seconds * 1000
    cluster = ClusterRules(
        session_timeout_ms=settings.broker_session_timeout_ms,
        rebalance_interval_ms=interval_ms if settings.auto_leader_rebalance_enable else None,
    )
    return Controller(image, rules, random, cluster=cluster, safeguards=safeguards)


def election_defaults(config: NodeConfig) -> dict[str, str]:
    """What this node was given of the settings that all nodes must see alike."""
    return {
        name: setting_named(name, "topic").format(config.topic_defaults[name])
        for name in ELECTION_SETTINGS
        if name in config.topic_defaults
    }


def load_groups(state: BrokerState, now: Now) -> None:
    """Take up the partitions of the offsets topic that this node leads by now."""
    coordinators = state.coordinators
    coordinators.topics_changed()
    topic = state.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return
    led = coordinators.partitions_led()
    for partition in topic.partitions:
        replica = state.replicas.by_key.get(partition.key)
        if replica is None or replica.leader is None or partition.key.partition in led:
            continue
        coordinators.take_up(replica)
    coordinators.partitions = len(topic.partitions)
    coordinators.load(now)


def _check_identity(config: NodeConfig, image: Image) -> None:
    others = [node_id for node_id in image.nodes if node_id != config.node_id]
    if others and config.node_id not in image.nodes:
        raise StartRefused(
            f"the data directory belongs to node {others[0]}, not {config.node_id}: "
            f"start with --node-id {others[0]} or another --data-dir"
        )


def _register(
    config: NodeConfig, journal: Journal, controller: Controller, *, now: Now, is_clean: bool
) -> list[str]:
    """Record this start. Without room for it, an old node still starts: reading must go on, and
    nothing depends on the record but the next start."""
    identity = controller.identify_cluster().records
    registration = controller.start_alone(
        Registration(
            config.node_id,
            listeners=(Listener("PLAINTEXT", config.host, config.port),),
            rack=config.rack,
            previous_epoch=_epoch_vouched_for(config, controller.image, is_clean=is_clean),
        )
    ).records
    registered, _ = controller.image.replay(registration)
    defaults = decide_defaults(registered, election_defaults(config)).records
    try:
        offset = journal.append([*identity, *registration, *defaults], now)
        _flush(journal)
        journal.take_committed()
    except DiskFull:
        if identity:
            raise
        controller.appended(registration[:1])
        return ["the disk is full: serving what is there, writing when there is room"]
    controller.appended([*identity, *registration, *defaults], offset)
    return []


def _epoch_vouched_for(config: NodeConfig, image: Image, *, is_clean: bool) -> BrokerEpoch:
    """Of the life that ended with the clean mark: everything it had is there."""
    known = image.nodes.get(config.node_id)
    return known.epoch if is_clean and known is not None else NO_BROKER_EPOCH


def _flush(journal: Journal) -> None:
    ticket = journal.flush_ticket()
    if ticket is not None:
        for target in ticket.targets:
            target.sync()
        journal.log.flushed(ticket)

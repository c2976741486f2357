"""From a data directory to a node's state: identity, metadata, logs, and the clean mark."""

from __future__ import annotations

from random import Random

from tidelog.broker.configuration import NodeConfig
from tidelog.broker.offsets_log import OFFSETS_TOPIC
from tidelog.broker.replicas import TOPICS_DIRECTORY, Replicas, replication_settings
from tidelog.broker.state import BrokerState
from tidelog.controller.controller import Controller
from tidelog.controller.topics import TopicRules
from tidelog.log.disk import Disk, DiskError, DiskFull
from tidelog.metadata.image import Image
from tidelog.metadata.journal import DIRECTORY as METADATA_DIRECTORY
from tidelog.metadata.journal import Journal, JournalDamaged
from tidelog.model.clock import Now
from tidelog.model.safeguards import Safeguard
from tidelog.partition.membership import Membership

CLEAN_MARK = "clean-shutdown"
ROOT = ""


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
    is_clean = _take_clean_mark(disk)
    disk.make_directory(METADATA_DIRECTORY)
    disk.make_directory(TOPICS_DIRECTORY)
    journal = Journal.open(disk, clean=is_clean, safeguards=safeguards)
    try:
        image, _ = Image().replay(journal.read_all())
    except JournalDamaged as damaged:
        raise StartRefused(f"{damaged}; restore {METADATA_DIRECTORY}/ from a copy") from None
    _check_identity(config, image)
    rules = TopicRules(
        default_partitions=config.settings.num_partitions,
        max_partitions=config.settings.max_partitions,
    )
    controller = Controller(image, rules, random)
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
        safeguards=safeguards,
    )
    return state, reports + load_groups(state, now)


def load_groups(state: BrokerState, now: Now) -> list[str]:
    """Take up the partitions of the offsets topic that are not yet; gives what went wrong."""
    coordinators = state.coordinators
    coordinators.update_deadline()
    topic = state.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return []
    reports: list[str] = []
    loaded = coordinators.loaded_partitions()
    for partition in topic.partitions:
        leader = state.replicas.by_key.get(partition.key)
        if leader is None or partition.key.partition in loaded:
            continue
        trouble = coordinators.try_load(leader, now)
        if trouble is not None:
            reports.append(f"{leader.name}: its groups can't be served yet: {trouble}")
    coordinators.partitions = len(topic.partitions)
    return reports


def write_clean_mark(disk: Disk) -> bool:
    """The last act of a clean stop. False if the disk would not take it."""
    try:
        mark = disk.open(CLEAN_MARK, create=True)
        mark.write(0, [b"clean\n"])
        mark.sync()
        mark.close()
        disk.directory(ROOT).sync()
    except DiskError:
        return False
    return True


def _take_clean_mark(disk: Disk) -> bool:
    """Whether the last stop was clean. From here on it is not, until the next clean stop."""
    if not disk.exists(CLEAN_MARK):
        return False
    disk.delete(CLEAN_MARK)
    disk.directory(ROOT).sync()
    return True


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
    registration = controller.register_node(
        config.node_id, host=config.host, port=config.port, rack=config.rack
    ).records
    epochs = [] if is_clean else controller.lead_after_crash(config.node_id).records
    try:
        journal.append([*identity, *registration, *epochs], now.wall_ms)
        _flush(journal)
        journal.take_committed()
    except DiskFull:
        if identity:
            raise
        controller.appended(registration)
        return ["the disk is full: serving what is there, writing when there is room"]
    controller.appended([*identity, *registration, *epochs])
    return []


def _flush(journal: Journal) -> None:
    ticket = journal.flush_ticket()
    if ticket is not None:
        for target in ticket.targets:
            target.sync()
        journal.log.flushed(ticket)

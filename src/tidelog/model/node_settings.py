"""What a node may be told at its start: the rows, and the typed object it obeys."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.clock_settings import CLOCK_SETTINGS
from tidelog.model.cluster_settings import CLUSTER_SETTINGS
from tidelog.model.group_settings import GROUP_BOUNDS
from tidelog.model.replica_settings import REPLICA_SETTINGS
from tidelog.model.setting import INT16_MAX, INT32_MAX, INT64_MAX, Setting

NODE_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "num.partitions",
        "node",
        1,
        low=1,
        high=100_000,
        doc="Partitions of a topic created without a number.",
    ),
    Setting(
        "auto.create.topics.enable",
        "node",
        True,
        doc="A topic is created when a client asks for its metadata and allows it.",
    ),
    Setting(
        "max.partitions",
        "node",
        100_000,
        low=1,
        high=1_000_000,
        doc="Partitions this node will hold; creating more is refused.",
    ),
    Setting(
        "socket.request.max.bytes",
        "node",
        104_857_600,
        low=1024,
        high=INT32_MAX,
        unit="bytes",
        doc="A longer request is refused and its connection closed.",
    ),
    Setting(
        "queued.max.request.bytes",
        "node",
        536_870_912,
        low=1_048_576,
        high=INT64_MAX,
        unit="bytes",
        doc="Memory for requests on their way in, beyond 64 KiB per connection, all connections "
        "together: it is taken as their bytes arrive. One address gets three quarters of it at "
        "most, and large requests leave room for small ones; a request without room is not read "
        "on until there is some. One request of the largest size can always be finished.",
    ),
    Setting(
        "socket.request.progress.timeout.ms",
        "node",
        30_000,
        low=100,
        high=INT32_MAX,
        unit="ms",
        doc="A request that has begun to arrive must be complete, or another mebibyte of it there, "
        "within this time; else its connection is closed. While other requests wait for memory, "
        "one that holds some must grow every 2 s. Kafka has no such limit.",
    ),
    Setting(
        "socket.send.buffer.bytes",
        "node",
        102_400,
        low=-1,
        high=INT32_MAX,
        unit="bytes",
        doc="What the kernel may hold for a client that reads slowly; -1 leaves it to the kernel. "
        "A small one keeps a fetch within the processor's cache; on a long fast link give more.",
    ),
    Setting(
        "max.connections",
        "node",
        10_000,
        low=1,
        high=1_000_000,
        doc="Connections beyond this are closed at once. The open-file limit may lower it.",
    ),
    Setting(
        "max.connections.per.ip",
        "node",
        INT32_MAX,
        low=1,
        high=INT32_MAX,
        doc="Connections from one address beyond this are closed at once.",
    ),
    Setting(
        "connections.max.idle.ms",
        "node",
        600_000,
        low=1000,
        high=INT32_MAX,
        unit="ms",
        doc="A connection silent for this long, with nothing to wait for, is closed.",
    ),
    Setting(
        "max.inflight.requests.per.connection",
        "node",
        128,
        low=1,
        high=100_000,
        doc="Requests of one connection that may wait for an answer before reading from it pauses.",
    ),
    Setting(
        "fetch.max.bytes",
        "node",
        57_671_680,
        low=1024,
        high=INT32_MAX,
        unit="bytes",
        doc="The most records one fetch answers with, whatever the client asks for.",
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        "node",
        1000,
        low=0,
        high=100_000,
        doc="Fetch sessions of consumers kept; the longest unused gives way.",
    ),
    Setting(
        "log.retention.check.interval.ms",
        "node",
        300_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="How often logs are looked at for segments to delete.",
    ),
    Setting(
        "log.cleaner.backoff.ms",
        "node",
        15_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="How often logs are looked at for records to compact.",
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        "node",
        134_217_728,
        low=65_536,
        high=INT32_MAX,
        unit="bytes",
        doc="Memory for the keys of one compaction; a log with more keys is compacted in parts.",
    ),
    Setting(
        "log.scrub.bytes.per.second",
        "node",
        2_000_000,
        low=0,
        high=INT64_MAX,
        unit="bytes",
        doc="How fast closed segments are read again in the background to find damage. 0: never.",
    ),
    Setting(
        "log.scrub.interval.ms",
        "node",
        86_400_000,
        low=1,
        high=INT64_MAX,
        unit="ms",
        doc="How long after the beginning of one such round over all logs the next may begin.",
    ),
    Setting(
        "offsets.topic.num.partitions",
        "node",
        8,
        low=1,
        high=1000,
        doc="Partitions of __consumer_offsets, when it is created. Fewer than Kafka's 50, because "
        "each that is written to is one more file to flush.",
    ),
    Setting(
        "offsets.retention.minutes",
        "node",
        10_080,
        low=1,
        high=INT32_MAX,
        unit="minutes",
        doc="Offsets of a group without members are forgotten after this long.",
    ),
    Setting(
        "offset.metadata.max.bytes",
        "node",
        4096,
        low=0,
        high=INT32_MAX,
        unit="bytes",
        doc="The longest text that may be committed with an offset.",
    ),
    Setting(
        "group.min.session.timeout.ms",
        "node",
        6000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="The shortest session timeout a member may ask for.",
    ),
    Setting(
        "group.max.session.timeout.ms",
        "node",
        1_800_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="The longest session timeout a member may ask for.",
    ),
    Setting(
        "group.initial.rebalance.delay.ms",
        "node",
        100,
        low=0,
        high=INT32_MAX,
        unit="ms",
        doc="How long an empty group waits for more members after each that joins. Kafka waits "
        "3 s, and everybody who develops against it waits with it; members that start together "
        "come within less.",
    ),
    Setting(
        "group.max.size",
        "node",
        INT32_MAX,
        low=1,
        high=INT32_MAX,
        doc="Members a group of the classic protocol may have.",
    ),
    Setting(
        "group.consumer.session.timeout.ms",
        "node",
        45_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="A member of the newer protocol silent for this long is removed.",
    ),
    Setting(
        "group.consumer.heartbeat.interval.ms",
        "node",
        5000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="How often members of the newer protocol are asked to send a heartbeat.",
    ),
    Setting(
        "group.consumer.max.size",
        "node",
        INT32_MAX,
        low=1,
        high=INT32_MAX,
        doc="Members a group of the newer protocol may have.",
    ),
    Setting(
        "group.consumer.assignors",
        "node",
        "uniform,range",
        choices=("uniform", "range"),
        is_list=True,
        doc="Assignors of the newer protocol, the default first.",
    ),
    Setting(
        "group.consumer.migration.policy",
        "node",
        "bidirectional",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
        doc="Whether a group may move between the classic and the newer protocol while it runs.",
    ),
    Setting(
        "offsets.retention.check.interval.ms",
        "node",
        600_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="How often committed offsets are looked at for some to forget.",
    ),
    Setting(
        "producer.id.expiration.ms",
        "node",
        86_400_000,
        low=1,
        high=INT64_MAX,
        unit="ms",
        doc="An idempotent producer silent for this long on a partition is forgotten there.",
    ),
    Setting(
        "default.replication.factor",
        "node",
        1,
        low=1,
        high=INT16_MAX,
        doc="Replicas of a topic created without a number.",
    ),
    Setting(
        "offsets.topic.replication.factor",
        "node",
        3,
        low=1,
        high=INT16_MAX,
        doc="Replicas of __consumer_offsets. With fewer nodes it has one on each, and the "
        "controller adds the others when nodes have come.",
    ),
    Setting(
        "auto.leader.rebalance.enable",
        "node",
        True,
        doc="Leaders go back to the first of their replicas once it is in sync again.",
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        "node",
        300,
        low=1,
        high=INT32_MAX,
        unit="seconds",
        doc="How often it is looked for leaders that could go back.",
    ),
    Setting(
        "metadata.reserve.bytes",
        "node",
        2_097_152,
        low=0,
        high=INT32_MAX,
        unit="bytes",
        doc="Room on the disk kept for the metadata, as a file: when the disk is full, votes and "
        "the controller's decisions have it, and records are refused until it is free again. 0 "
        "keeps none.",
    ),
    *CLOCK_SETTINGS,
    *GROUP_BOUNDS,
    *CLUSTER_SETTINGS,
    *REPLICA_SETTINGS,
)

LIVE_NODE_SETTINGS = tuple(setting.name for setting in NODE_SETTINGS if setting.live)
"""What clients may change of nodes while they run, of one or of all alike."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What the node itself obeys."""

    num_partitions: int
    auto_create_topics_enable: bool
    max_partitions: int
    socket_request_max_bytes: int
    queued_max_request_bytes: int
    socket_request_progress_timeout_ms: int
    socket_send_buffer_bytes: int
    max_connections: int
    max_connections_per_ip: int
    connections_max_idle_ms: int
    max_inflight_requests_per_connection: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    log_retention_check_interval_ms: int
    log_scrub_bytes_per_second: int
    log_scrub_interval_ms: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    offsets_topic_num_partitions: int
    offsets_retention_minutes: int
    offset_metadata_max_bytes: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_consumer_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: str
    group_consumer_migration_policy: str
    offsets_retention_check_interval_ms: int
    producer_id_expiration_ms: int
    default_replication_factor: int
    offsets_topic_replication_factor: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    metadata_reserve_bytes: int
    clock_steady_ms: int
    clock_confirmed_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    consensus: str
    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    controller_quorum_voters: str
    controller_quorum_bootstrap_servers: str
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_timeout_ms: int
    metadata_log_max_records_between_snapshots: int
    broker_session_timeout_ms: int
    broker_heartbeat_interval_ms: int
    replica_fetch_wait_max_ms: int
    broker_rack: str
    replica_lag_time_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    follower_replication_throttled_rate: int
    leader_replication_throttled_rate: int
    replica_selector: str

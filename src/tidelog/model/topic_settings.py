"""What one topic may be told: the rows, and the typed object that the log obeys."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.accepted_settings import ACCEPTED_TOPIC_SETTINGS
from tidelog.model.setting import INT16_MAX, INT32_MAX, INT64_MAX, Setting

DAY_MS = 86_400_000
UNLIMITED = -1
INTERNAL_FACTOR = "internal.replication.factor"

TOPIC_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "flush.policy",
        "topic",
        "ack",
        choices=("ack", "os"),
        live=True,
        doc="ack: records are flushed to disk before they are acknowledged or become visible "
        "(one flush serves all that wait). os: as Kafka does, the operating system flushes when "
        "it likes; a power failure may lose acknowledged records.",
    ),
    Setting(
        "cleanup.policy",
        "topic",
        "delete",
        choices=("delete", "compact", "consumed"),
        is_list=True,
        may_be_empty=True,
        live=True,
        doc="delete: closed segments go by age and size. compact: the latest record of each key "
        "stays. consumed: a closed segment goes once every group that commits offsets for the "
        "topic has committed past it. Several may be given; with none, every record stays.",
    ),
    Setting(
        "retention.ms",
        "topic",
        7 * DAY_MS,
        low=UNLIMITED,
        high=INT64_MAX,
        unit="ms",
        live=True,
        doc="Under cleanup.policy=delete, a closed segment goes when its newest record is older "
        "than this; -1 for never.",
    ),
    Setting(
        "retention.bytes",
        "topic",
        UNLIMITED,
        low=UNLIMITED,
        high=INT64_MAX,
        unit="bytes",
        live=True,
        doc="Under cleanup.policy=delete, the oldest closed segments of a partition go while it "
        "is larger than this; -1 for no limit.",
    ),
    Setting(
        "segment.bytes",
        "topic",
        2**30,
        low=1024,
        high=INT32_MAX,
        unit="bytes",
        live=True,
        doc="A segment file is closed and the next begun before it would exceed this size.",
    ),
    Setting(
        "segment.ms",
        "topic",
        7 * DAY_MS,
        low=1,
        high=INT64_MAX,
        unit="ms",
        live=True,
        doc="A segment file is closed when its first record is older than this.",
    ),
    Setting(
        "segment.jitter.ms",
        "topic",
        0,
        low=0,
        high=INT64_MAX,
        unit="ms",
        live=True,
        doc="A segment file is closed earlier than segment.ms says by up to this, each by another "
        "time, so that the partitions of a topic do not begin new files all at once.",
    ),
    Setting(
        "index.interval.bytes",
        "topic",
        4096,
        low=0,
        high=INT32_MAX,
        unit="bytes",
        live=True,
        doc="An index entry is added at most every so many bytes of log.",
    ),
    Setting(
        "max.message.bytes",
        "topic",
        1_048_588,
        low=0,
        high=INT32_MAX,
        unit="bytes",
        live=True,
        doc="The largest record batch accepted (1 MB and the batch's own header).",
    ),
    Setting(
        "records.validation",
        "topic",
        "sampled",
        choices=("full", "sampled", "header"),
        live=True,
        doc="How much of a producer's batch is looked at before it is appended. header: its "
        "header and checksum. sampled: also its first 8 records, or, of a compressed batch, how it "
        "begins. full: each record of each batch, decompressed for that, as Kafka does; it costs "
        "CPU per record. Compacted topics are always looked at in full.",
    ),
    Setting(
        "message.timestamp.type",
        "topic",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        live=True,
        doc="Whose clock dates a record: the producer's, or the node's when it appends. The latter "
        "rewrites the batch's checksum and costs CPU.",
    ),
    Setting(
        "message.timestamp.before.max.ms",
        "topic",
        INT64_MAX,
        low=0,
        high=INT64_MAX,
        unit="ms",
        live=True,
        doc="A batch whose newest timestamp is older than this, by the node's clock, is refused.",
    ),
    Setting(
        "message.timestamp.after.max.ms",
        "topic",
        3_600_000,
        low=0,
        high=INT64_MAX,
        unit="ms",
        live=True,
        doc="A batch whose newest timestamp lies further in the future than this is refused.",
    ),
    Setting(
        "compression.type",
        "topic",
        "producer",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        live=True,
        doc="producer: batches are kept as they come. Otherwise batches that come differently are "
        "opened and compressed anew by the node, which costs CPU.",
    ),
    Setting(
        "compression.gzip.level",
        "topic",
        -1,
        low=-1,
        high=9,
        live=True,
        pattern=r"-1|[1-9]",
        doc="With compression.type=gzip: from 1, the fastest, to 9, the smallest; -1 leaves it to "
        "the codec.",
    ),
    Setting(
        "compression.zstd.level",
        "topic",
        3,
        low=-131_072,
        high=22,
        live=True,
        doc="With compression.type=zstd: up to 22, the smallest; negative ones are faster yet.",
    ),
    Setting(
        "min.cleanable.dirty.ratio",
        "topic",
        0.5,
        low=0,
        high=1,
        live=True,
        doc="Under cleanup.policy=compact, a log is cleaned when this share of it has not been.",
    ),
    Setting(
        "min.compaction.lag.ms",
        "topic",
        0,
        low=0,
        high=INT64_MAX,
        unit="ms",
        live=True,
        doc="A record stays uncompacted for at least this long.",
    ),
    Setting(
        "max.compaction.lag.ms",
        "topic",
        INT64_MAX,
        low=1,
        high=INT64_MAX,
        unit="ms",
        live=True,
        doc="A record stays uncompacted for at most this long, whatever the dirty ratio.",
    ),
    Setting(
        "delete.retention.ms",
        "topic",
        DAY_MS,
        low=0,
        high=INT64_MAX,
        unit="ms",
        live=True,
        doc="A tombstone stays for at least this long after compaction first met it, so that a "
        "reader from the start can see it.",
    ),
    Setting(
        "min.insync.replicas",
        "topic",
        1,
        low=1,
        high=INT32_MAX,
        live=True,
        doc="With fewer replicas in sync, produce with acks=all is refused and nothing more is "
        "committed. At most the number of replicas counts.",
    ),
    Setting(
        "unclean.leader.election.enable",
        "topic",
        False,
        live=True,
        doc="Where no replica is left that has every committed record, one that may lack some is "
        "elected: the partition is available again, and acknowledged records may be lost.",
    ),
    Setting(
        "follower.replication.throttled.replicas",
        "topic",
        "",
        is_list=True,
        live=True,
        pattern=r"\*|[0-9]+:[0-9]+|",
        alone="*",
        doc="Copies in the making that keep to follower.replication.throttled.rate, as "
        "PARTITION:NODE separated by commas, or * for all. Copies that are in sync never wait.",
    ),
    Setting(
        INTERNAL_FACTOR,
        "topic",
        -1,
        low=-1,
        high=INT16_MAX,
        live=True,
        doc="Of an internal topic: how many replicas the controller gives it when there are nodes. "
        "-1 is offsets.topic.replication.factor. Set by a reassignment to another number.",
    ),
    Setting(
        "leader.replication.throttled.replicas",
        "topic",
        "",
        is_list=True,
        live=True,
        pattern=r"\*|[0-9]+:[0-9]+|",
        alone="*",
        doc="Replicas that keep to leader.replication.throttled.rate when they lead and copies in "
        "the making fetch from them, as PARTITION:NODE separated by commas, or * for all.",
    ),
    *ACCEPTED_TOPIC_SETTINGS,
)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What one topic's logs obey: the topic's own values over the node's over the defaults."""

    flush_policy: str
    cleanup_policy: str
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    index_interval_bytes: int
    max_message_bytes: int
    records_validation: str
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    compression_type: str
    compression_gzip_level: int
    compression_zstd_level: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    follower_replication_throttled_replicas: str
    internal_replication_factor: int
    leader_replication_throttled_replicas: str

    @property
    def is_deleted(self) -> bool:
        return "delete" in self.cleanup_policy.split(",")

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy.split(",")

    @property
    def is_consumed(self) -> bool:
        return "consumed" in self.cleanup_policy.split(",")

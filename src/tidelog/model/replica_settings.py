"""What a node is told about copies of partitions: how they are fetched, and when one is too
late."""

from __future__ import annotations

from tidelog.model.setting import INT32_MAX, INT64_MAX, Setting

FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_RATE = "leader.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

REPLICA_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "replica.lag.time.max.ms",
        "node",
        30_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="A follower that has not caught up with its leader for this long is no longer in sync. "
        "Keep it above the session timeouts: a leader that was replaced while it was frozen, and "
        "left behind before its session was over, may for a moment show an old end of the log.",
    ),
    Setting(
        "replica.fetch.max.bytes",
        "node",
        1_048_576,
        low=1024,
        high=INT32_MAX,
        unit="bytes",
        doc="What a follower asks for per partition; a larger batch still comes whole.",
    ),
    Setting(
        "replica.fetch.response.max.bytes",
        "node",
        10_485_760,
        low=1024,
        high=INT32_MAX,
        unit="bytes",
        doc="What a follower asks for in one fetch, all partitions together.",
    ),
    Setting(
        "replica.fetch.backoff.ms",
        "node",
        1000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="How long a follower waits after a fetch that failed.",
    ),
    Setting(
        FOLLOWER_RATE,
        "node",
        INT64_MAX,
        low=1,
        high=INT64_MAX,
        unit="bytes",
        live=True,
        doc="The maximum rate at which a node fetches for its replicas that are still catching up, "
        "in bytes a second, where their topic's follower.replication.throttled.replicas names "
        "them. Changed while they run, of one node or of "
        "all, by `tidelog cluster reassign --throttle` and by Kafka's tools.",
    ),
    Setting(
        LEADER_RATE,
        "node",
        INT64_MAX,
        low=1,
        high=INT64_MAX,
        unit="bytes",
        live=True,
        doc="The maximum rate at which a leader sends to replicas that are still catching up, in "
        "bytes a second for all partitions a node leads together, where their topic's "
        "leader.replication.throttled.replicas names it.",
    ),
    Setting(
        LOG_DIRS_RATE,
        "node",
        INT64_MAX,
        low=1,
        high=INT64_MAX,
        unit="bytes",
        live=True,
        is_obeyed=False,
        doc="Changes nothing: a node has one data directory, so no copy moves from one to another.",
    ),
    Setting(
        "replica.selector",
        "node",
        "rack",
        choices=("leader", "rack"),
        doc="rack: a consumer that names its rack is sent to the replica in it that is in sync. "
        "leader: all read from the leader.",
    ),
)

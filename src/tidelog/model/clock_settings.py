"""What a node is told about its wall clock: when it is believed enough to delete by it."""

from __future__ import annotations

from tidelog.model.setting import INT32_MAX, INT64_MAX, Setting

CLOCK_CONFIRMED = "clock.confirmed.ms"

CLOCK_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "clock.steady.ms",
        "node",
        1_800_000,
        low=0,
        high=INT32_MAX,
        unit="ms",
        doc="Age-based deletion (retention.ms, offsets.retention.minutes, delete.retention.ms, "
        "producer.id.expiration.ms) is paused until the wall clock has been steady for this long "
        "since the node's start, and since each jump of more than a minute against the "
        "monotonic clock. 0 believes any clock. Half an hour is longer than NTP leaves a clock "
        "wrong that it can correct.",
    ),
    Setting(
        CLOCK_CONFIRMED,
        "node",
        0,
        low=0,
        high=INT64_MAX,
        unit="ms",
        live=True,
        doc="A time, since 1970, that an operator says it is. A node whose wall clock shows about "
        "the same believes it at once instead of waiting for clock.steady.ms. Changed for all "
        "nodes while they run, by `tidelog cluster confirm-clock`.",
    ),
)

"""Under which names Kafka's brokers have what topics get unless they say otherwise.

A topic's `retention.ms` is a broker's `log.retention.ms`, or where that is not given its
`log.retention.minutes`, or else its `log.retention.hours`. DescribeConfigs shows these names, since
tools look for them. A setting that is not here has the same name for both, or Kafka's brokers have
none for it.
"""

from __future__ import annotations

from typing import NamedTuple

_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000


class Synonym(NamedTuple):
    """A broker's name for a topic's setting; its unit is `factor` of the topic's."""

    name: str
    factor: int = 1


_SAME_WITH_PREFIX = {
    "log.": (
        "cleanup.policy",
        "index.interval.bytes",
        "local.retention.bytes",
        "local.retention.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "preallocate",
        "retention.bytes",
        "segment.bytes",
    ),
    "log.cleaner.": ("delete.retention.ms", "max.compaction.lag.ms", "min.compaction.lag.ms"),
}

BROKER_SYNONYMS: dict[str, tuple[Synonym, ...]] = {
    **{
        name: (Synonym(prefix + name),)
        for prefix, names in _SAME_WITH_PREFIX.items()
        for name in names
    },
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "segment.jitter.ms": (
        Synonym("log.roll.jitter.ms"),
        Synonym("log.roll.jitter.hours", _HOUR_MS),
    ),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
}
"""By the topic's name, the one that counts first before the others."""


def broker_name(topic_setting: str) -> str:
    """The first of its names, or the same."""
    return BROKER_SYNONYMS.get(topic_setting, (Synonym(topic_setting),))[0].name

"""What single groups of the consumer protocol may be told, and within which bounds.

A group's own setting wins over the node's `group.consumer.…` of the same name, which is also the
default. The bounds are the node's: a value beyond them is refused, and one that was recorded before
they were narrowed counts as the bound.
"""

from __future__ import annotations

from tidelog.model.setting import INT32_MAX, Setting

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"

GROUP_SETTINGS: tuple[Setting, ...] = (
    Setting(
        SESSION_TIMEOUT,
        "group",
        45_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        live=True,
        doc="A member of this group that is silent for this long is removed. Otherwise "
        "group.consumer.session.timeout.ms of the node holds.",
    ),
    Setting(
        HEARTBEAT_INTERVAL,
        "group",
        5000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        live=True,
        doc="How often the members of this group are asked to send a heartbeat. Otherwise "
        "group.consumer.heartbeat.interval.ms of the node holds.",
    ),
)

GROUP_BOUNDS: tuple[Setting, ...] = (
    Setting(
        "group.consumer.min.session.timeout.ms",
        "node",
        45_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="The shortest consumer.session.timeout.ms that a group may be given.",
    ),
    Setting(
        "group.consumer.max.session.timeout.ms",
        "node",
        60_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="The longest consumer.session.timeout.ms that a group may be given.",
    ),
    Setting(
        "group.consumer.min.heartbeat.interval.ms",
        "node",
        5000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="The shortest consumer.heartbeat.interval.ms that a group may be given.",
    ),
    Setting(
        "group.consumer.max.heartbeat.interval.ms",
        "node",
        15_000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="The longest consumer.heartbeat.interval.ms that a group may be given.",
    ),
)

"""One row per setting: the only place where a setting's name, type, default and bounds are written.

Names, units and defaults are Kafka's where Kafka has the setting. From the table come the typed
objects (`TopicSettings`, `NodeSettings`), the values a client may set at topic creation, the CLI's
`--set`, and `docs/settings.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Scope = Literal["topic", "node"]
Value = int | str | bool

FOREVER = -1


@dataclass(frozen=True, slots=True)
class Setting:
    """A row. `low`/`high` bound integers, `choices` strings."""

    name: str
    scope: Scope
    default: Value
    doc: str
    unit: str = ""
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    live: bool = False

    def parse(self, text: str) -> Value:
        """The typed value of `text`, or `InvalidSetting` with a sentence for the user."""
        if isinstance(self.default, bool):
            return self._parse_bool(text)
        if isinstance(self.default, int):
            return self._parse_int(text)
        if self.choices and text not in self.choices:
            raise InvalidSetting(
                f"{self.name} must be one of {', '.join(self.choices)}: not {text!r}"
            )
        return text

    def _parse_bool(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise InvalidSetting(f"{self.name} must be true or false: not {text!r}")
        return text.lower() == "true"

    def _parse_int(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise InvalidSetting(f"{self.name} must be a whole number: not {text!r}") from None
        if self.low is not None and value < self.low:
            raise InvalidSetting(f"{self.name} must be at least {self.low}: not {value}")
        if self.high is not None and value > self.high:
            raise InvalidSetting(f"{self.name} must be at most {self.high}: not {value}")
        return value


class InvalidSetting(ValueError):
    """A setting's name or value is wrong; the message is a sentence for the user."""


_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
_FLUSH_POLICIES = ("ack", "os")

SETTINGS: tuple[Setting, ...] = (
    # --- topics -------------------------------------------------------------------------------
    Setting(
        "flush.policy",
        "topic",
        "ack",
        choices=_FLUSH_POLICIES,
        doc="ack: records are flushed to disk before they are acknowledged or become visible "
        "(one flush serves all that wait). os: as Kafka does, the operating system flushes when "
        "it likes; a power failure may lose acknowledged records.",
    ),
    Setting(
        "segment.bytes",
        "topic",
        2**30,
        low=1024,
        high=_INT32,
        unit="bytes",
        doc="A segment file is closed and the next begun before it would exceed this size.",
    ),
    Setting(
        "segment.ms",
        "topic",
        7 * 86_400_000,
        low=1,
        high=_INT64,
        unit="ms",
        doc="A segment file is closed when its first record is older than this.",
    ),
    Setting(
        "index.interval.bytes",
        "topic",
        4096,
        low=0,
        high=_INT32,
        unit="bytes",
        doc="An index entry is added at most every so many bytes of log.",
    ),
    Setting(
        "max.message.bytes",
        "topic",
        1_048_588,
        low=0,
        high=_INT32,
        unit="bytes",
        doc="The largest record batch accepted (1 MB and the batch's own header).",
    ),
    Setting(
        "message.timestamp.type",
        "topic",
        "CreateTime",
        choices=("CreateTime",),
        doc="Record timestamps are the producer's.",
    ),
    # --- the node -----------------------------------------------------------------------------
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
        high=_INT32,
        unit="bytes",
        doc="A longer request is refused and its connection closed.",
    ),
    Setting(
        "queued.max.request.bytes",
        "node",
        536_870_912,
        low=1_048_576,
        high=_INT64,
        unit="bytes",
        doc="Memory for requests over 1 MB on their way in, all connections together; further ones "
        "are not read until there is room. At least one request of the largest size always has it.",
    ),
    Setting(
        "socket.send.buffer.bytes",
        "node",
        102_400,
        low=-1,
        high=_INT32,
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
        "connections.max.idle.ms",
        "node",
        600_000,
        low=1000,
        high=_INT32,
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
        high=_INT32,
        unit="bytes",
        doc="The most records one fetch answers with, whatever the client asks for.",
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        "node",
        1000,
        low=0,
        high=100_000,
        doc="Fetch sessions kept; the longest unused gives way.",
    ),
)

_BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}


def setting_named(name: str, scope: Scope) -> Setting:
    """The row of `name`, or `InvalidSetting` naming what is wrong."""
    setting = _BY_NAME.get(name)
    if setting is None or (scope == "topic" and setting.scope != "topic"):
        raise InvalidSetting(f"unknown {scope} setting {name!r}")
    return setting


def parse_settings(
    pairs: Mapping[str, str] | Iterable[tuple[str, str]], scope: Scope
) -> dict[str, Value]:
    """Typed values of the given pairs. A node may also be given topic settings: its defaults."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return {name: setting_named(name, scope).parse(text) for name, text in items}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What one topic's logs obey: the topic's own values over the node's over the defaults."""

    flush_policy: str
    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    max_message_bytes: int
    message_timestamp_type: str


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What the node itself obeys."""

    num_partitions: int
    auto_create_topics_enable: bool
    max_partitions: int
    socket_request_max_bytes: int
    queued_max_request_bytes: int
    socket_send_buffer_bytes: int
    max_connections: int
    connections_max_idle_ms: int
    max_inflight_requests_per_connection: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int


def topic_settings(*layers: Mapping[str, Value]) -> TopicSettings:
    """The settings of a topic; later layers win. Values are as `parse_settings` gives them."""
    return TopicSettings(**_resolved("topic", layers))  # type: ignore[arg-type]


def node_settings(*layers: Mapping[str, Value]) -> NodeSettings:
    """The node's settings; later layers win. Topic settings in a layer are left to the topics."""
    return NodeSettings(**_resolved("node", layers))  # type: ignore[arg-type]


def _resolved(scope: Scope, layers: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    values = {setting.name: setting.default for setting in SETTINGS if setting.scope == scope}
    for layer in layers:
        values.update({name: value for name, value in layer.items() if name in values})
    return {name.replace(".", "_"): value for name, value in values.items()}

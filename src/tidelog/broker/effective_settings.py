"""The settings that a topic, a group or the node really has, and where each value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from tidelog.broker.configuration import NodeConfig
from tidelog.model.broker_synonyms import BROKER_SYNONYMS, broker_name
from tidelog.model.group_settings import GROUP_SETTINGS
from tidelog.model.node_settings import LIVE_NODE_SETTINGS
from tidelog.model.settings import SETTINGS, Setting, setting_named

_LISTENER = "PLAINTEXT"


class Source(IntEnum):
    """The numbers are the protocol's: `config_source` of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_NODE = 2
    CLUSTER = 3
    NODE = 4
    DEFAULT = 5
    GROUP = 8


class Given(NamedTuple):
    """A value, under the name it was given by."""

    source: Source
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Effective:
    """One setting; `values` are all that were given for it, the one in force first."""

    name: str
    kind: str
    doc: str
    values: tuple[Given, ...]
    is_read_only: bool = False

    @property
    def source(self) -> Source:
        return self.values[0].source

    @property
    def value(self) -> str | None:
        return self.values[0].value


def topic_effective(config: NodeConfig, configs: Mapping[str, str | None]) -> list[Effective]:
    """Every topic setting: the topic's own value over the node's over the default."""
    rows = []
    for setting in _settings_of("topic"):
        values = _of_node(setting, config, name=broker_name(setting.name))
        own = configs.get(setting.name)
        if own is not None:
            values.insert(0, Given(Source.TOPIC, setting.name, own))
        rows.append(_row(setting, values))
    return rows


def group_effective(config: NodeConfig, configs: Mapping[str, str]) -> list[Effective]:
    """Every setting of a group: its own value over the node's over the default."""
    rows = []
    for setting in GROUP_SETTINGS:
        of_node = setting_named(f"group.{setting.name}", "node")
        values = _of_node(of_node, config)
        if setting.name in configs:
            values.insert(0, Given(Source.GROUP, setting.name, configs[setting.name]))
        rows.append(_row(setting, values))
    return rows


def node_effective(
    config: NodeConfig, *, recorded: Mapping[str, str], own: Mapping[str, str]
) -> list[Effective]:
    """Every setting of the node, who it is, and what its topics have unless they say, under the
    names of topics and under those of Kafka's brokers. `recorded` and `own` are what was changed
    while it ran, for all nodes and for this one."""
    rows = [*_identity(config)]
    for setting in _settings_of("node"):
        values = _of_node(setting, config)
        if setting.name in recorded:
            values.insert(0, Given(Source.CLUSTER, setting.name, recorded[setting.name]))
        if setting.name in own:
            values.insert(0, Given(Source.DYNAMIC_NODE, setting.name, own[setting.name]))
        is_live = setting.name in LIVE_NODE_SETTINGS
        rows.append(_row(setting, values, is_read_only=not is_live))
    for setting in _settings_of("topic"):
        rows.append(_row(setting, _of_node(setting, config), is_read_only=True))
        rows += _under_brokers_names(setting, config)
    return rows


def all_nodes_effective(recorded: Mapping[str, str]) -> list[Effective]:
    """What was changed for all nodes alike while they ran: nothing else is known of all of them."""
    return [
        _row(setting_named(name, "node"), [Given(Source.CLUSTER, name, value)])
        for name, value in recorded.items()
    ]


def topic_default_texts(config: NodeConfig) -> dict[str, str]:
    """What a topic that says nothing has, as text."""
    return {row.name: row.value or "" for row in topic_effective(config, {})}


def _settings_of(scope: str) -> list[Setting]:
    return [setting for setting in SETTINGS if setting.scope == scope]


def _row(setting: Setting, values: list[Given], *, is_read_only: bool = False) -> Effective:
    return Effective(setting.name, setting.kind, setting.doc, tuple(values), is_read_only)


def _of_node(setting: Setting, config: NodeConfig, *, name: str | None = None) -> list[Given]:
    """What the node was given at its start, if anything, and the default."""
    name = name or setting.name
    values = []
    given = config.topic_defaults.get(setting.name)
    if given is not None:
        values.append(Given(Source.NODE, name, setting.format(given)))
    values.append(Given(Source.DEFAULT, name, setting.format(setting.default)))
    return values


def _under_brokers_names(setting: Setting, config: NodeConfig) -> list[Effective]:
    """The first name has the value in force. Those in a coarser unit, which Kafka asks only where
    the first is not given, have the default, if it is a whole number of their unit."""
    rows = []
    for synonym in BROKER_SYNONYMS.get(setting.name, ()):
        if synonym.factor == 1:
            values = _of_node(setting, config, name=synonym.name)
        else:
            whole, rest = divmod(int(setting.default), synonym.factor)
            values = [Given(Source.DEFAULT, synonym.name, None if rest else str(whole))]
        doc = f"What topics have as {setting.name} unless they say otherwise. {setting.doc}"
        rows.append(Effective(synonym.name, setting.kind, doc, tuple(values), is_read_only=True))
    return rows


def _identity(config: NodeConfig) -> list[Effective]:
    """Who the node is and where, as Kafka's brokers tell it. One listener serves everybody."""
    bound = f"{_LISTENER}://{_host(config.listen_host or config.host)}:{config.port}"
    advertised = f"{_LISTENER}://{_host(config.host)}:{config.port}"
    facts = [
        ("node.id", str(config.node_id), "integer", "The node's number in its cluster."),
        ("broker.id", str(config.node_id), "integer", "The same as node.id."),
        ("log.dir", config.data_dir, "string", "The data directory."),
        ("log.dirs", config.data_dir, "list", "The data directory: there is one."),
        ("listeners", bound, "list", "Where the node listens."),
        ("advertised.listeners", advertised, "list", "Where clients and other nodes are sent."),
        (
            "listener.security.protocol.map",
            f"{_LISTENER}:{_LISTENER}",
            "string",
            "What is spoken on each listener.",
        ),
        (
            "inter.broker.listener.name",
            _LISTENER,
            "string",
            "The listener that the nodes use among themselves.",
        ),
    ]
    if not config.uses_zookeeper:
        facts += [
            ("process.roles", "broker,controller", "list", "Every node can be the controller."),
            (
                "controller.listener.names",
                _LISTENER,
                "list",
                "The listener on which the controller is asked.",
            ),
        ]
    return [
        Effective(name, kind, doc, (Given(Source.NODE, name, value),), is_read_only=True)
        for name, value, kind, doc in facts
    ]


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host

"""The settings a topic or the node really has, and where each value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from tidelog.broker.configuration import NodeConfig
from tidelog.model.settings import SETTINGS, Setting


class Source(IntEnum):
    """The numbers are the protocol's: `config_source` of DescribeConfigs."""

    TOPIC = 1
    CLUSTER = 3
    NODE = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Effective:
    """One setting; `values` are all that were given for it, the one in force first."""

    setting: Setting
    values: tuple[tuple[Source, str], ...]

    @property
    def source(self) -> Source:
        return self.values[0][0]

    @property
    def value(self) -> str:
        return self.values[0][1]


def topic_effective(config: NodeConfig, configs: Mapping[str, str | None]) -> list[Effective]:
    """Every topic setting: the topic's own value over the node's over the default."""
    return [
        _effective(setting, config, configs.get(setting.name))
        for setting in SETTINGS
        if setting.scope == "topic"
    ]


def node_effective(config: NodeConfig, recorded: Mapping[str, str]) -> list[Effective]:
    """Every setting of the node; those of topics are what its topics have unless they say.
    `recorded` are those that were changed for all nodes while they ran."""
    rows = [_effective(setting, config, None) for setting in SETTINGS]
    return [
        replace(row, values=((Source.CLUSTER, recorded[row.setting.name]), *row.values))
        if row.setting.name in recorded
        else row
        for row in rows
    ]


def topic_default_texts(config: NodeConfig) -> dict[str, str]:
    """What a topic that says nothing has, as text."""
    return {row.setting.name: row.value for row in topic_effective(config, {})}


def _effective(setting: Setting, config: NodeConfig, own: str | None) -> Effective:
    values: list[tuple[Source, str]] = []
    if own is not None:
        values.append((Source.TOPIC, own))
    given = config.topic_defaults.get(setting.name)
    if given is not None:
        values.append((Source.NODE, setting.format(given)))
    values.append((Source.DEFAULT, setting.format(setting.default)))
    return Effective(setting, tuple(values))

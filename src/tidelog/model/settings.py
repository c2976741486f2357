"""All settings: the three tables together, looking one up, and layers of values to typed objects.

One row per setting is the only place where its name, type, default and bounds are written. Names,
units and defaults are Kafka's where Kafka has the setting. From the tables come `TopicSettings` and
`NodeSettings`, what clients may set on a topic and see in DescribeConfigs, the CLI's `--set`, and
`docs/settings.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.model.group_settings import GROUP_SETTINGS
from tidelog.model.node_settings import NODE_SETTINGS, NodeSettings
from tidelog.model.setting import InvalidSetting, Scope, Setting, Value
from tidelog.model.topic_settings import TOPIC_SETTINGS, TopicSettings

__all__ = [
    "SETTINGS",
    "InvalidSetting",
    "NodeSettings",
    "Scope",
    "Setting",
    "TopicSettings",
    "Value",
    "node_settings",
    "parse_settings",
    "recorded_settings",
    "setting_named",
    "topic_settings",
]

SETTINGS: tuple[Setting, ...] = TOPIC_SETTINGS + NODE_SETTINGS + GROUP_SETTINGS

_SCOPES: dict[Scope, tuple[Scope, ...]] = {
    "topic": ("topic",),
    "node": ("node", "topic"),
    "group": ("group",),
}
"""Whose settings each may be given: a node also those of topics, as their defaults."""

_BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}


def setting_named(name: str, scope: Scope) -> Setting:
    """The row of `name`, or `InvalidSetting` naming what is wrong."""
    setting = _BY_NAME.get(name)
    if setting is None or setting.scope not in _SCOPES[scope]:
        raise InvalidSetting(f"unknown {scope} setting {name!r}")
    return setting


def parse_settings(
    pairs: Mapping[str, str] | Iterable[tuple[str, str]], scope: Scope
) -> dict[str, Value]:
    """Typed values of the given pairs. A node may also be given topic settings: its defaults."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return {name: setting_named(name, scope).parse(text) for name, text in items}


def recorded_settings(pairs: Mapping[str, str], scope: Scope) -> dict[str, Value]:
    """As `parse_settings`, for values that the metadata log has."""
    return {name: setting_named(name, scope).parse_recorded(text) for name, text in pairs.items()}


def topic_settings(*layers: Mapping[str, Value]) -> TopicSettings:
    """The settings of a topic; later layers win. Values are as `parse_settings` gives them."""
    return TopicSettings(**_resolved("topic", layers))  # type: ignore[arg-type]


def node_settings(*layers: Mapping[str, Value]) -> NodeSettings:
    """The node's settings; later layers win. Topic settings in a layer are left to the topics."""
    return NodeSettings(**_resolved("node", layers))  # type: ignore[arg-type]


def _resolved(scope: Scope, layers: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    values = {
        setting.name: setting.default
        for setting in SETTINGS
        if setting.scope == scope and setting.is_obeyed
    }
    for layer in layers:
        values.update({name: value for name, value in layer.items() if name in values})
    return {name.replace(".", "_"): value for name, value in values.items()}

"""Names to complete at the Tab key: of topics, groups and settings.

Whoever presses Tab waits, so a broker gets a second to answer; without one nothing is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import typer

from tidelog.model.settings import SETTINGS, Setting

if TYPE_CHECKING:
    from tidelog.client import Admin

PATIENCE_S = 1.0

_TOPIC_SETTINGS = [setting for setting in SETTINGS if setting.scope == "topic"]


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    return _offered(ctx, incomplete, lambda admin: [topic.name for topic in admin.topics()])


def group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    return _offered(ctx, incomplete, lambda admin: [group.name for group in admin.groups()])


def topic_setting_names(incomplete: str) -> list[str]:
    return [setting.name for setting in _TOPIC_SETTINGS if setting.name.startswith(incomplete)]


def topic_setting_pairs(incomplete: str) -> list[str]:
    """`retention.ms=`, and behind the `=` the values to choose from."""
    return _pairs(incomplete, _TOPIC_SETTINGS)


def setting_pairs(incomplete: str) -> list[str]:
    """The same of all settings: a node takes those of topics, too."""
    return _pairs(incomplete, [setting for setting in SETTINGS if setting.scope != "group"])


def _pairs(incomplete: str, settings: Iterable[Setting]) -> list[str]:
    pairs = [
        f"{setting.name}={choice}"
        for setting in settings
        for choice in (setting.choices if "=" in incomplete else ("",))
    ]
    return [pair for pair in pairs if pair.startswith(incomplete)]


def _offered(ctx: typer.Context, incomplete: str, names: Callable[[Admin], list[str]]) -> list[str]:
    from tidelog.client import Admin, ClientError
    from tidelog.client.connection import Connection, connection_to

    try:
        bootstrap = connection_to(ctx.params.get("bootstrap")).bootstrap
        admin = Admin(Connection(bootstrap, timeout_s=PATIENCE_S))
        return [name for name in names(admin) if name.startswith(incomplete)]
    except ClientError:
        return []

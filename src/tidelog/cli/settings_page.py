"""`docs/settings.md`, written from the settings tables: `python -m tidelog.cli.settings_page`.

`tidelog config list --markdown` prints the same page.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.cli.setting_text import bounds, default_text, meaning
from tidelog.model.settings import SETTINGS, Scope, Setting

_HEAD = """\
# Settings

Generated from the tables in `src/tidelog/model`: change a row there, then run `make docs`.
Names and units are Kafka's where Kafka has the setting, and so are nearly all defaults.
`tidelog config list` shows the same in a terminal.
"""

_SECTIONS: tuple[tuple[Scope, str], ...] = (
    (
        "topic",
        """\
## Settings of a topic

Given when a topic is created (`tidelog topic create orders --set retention.ms=3600000`) or later
(`tidelog config set topic orders retention.ms=3600000`); a change works at once. A node may be
given them, too, at its start (`tidelog serve --set retention.ms=3600000`): then they are what its
topics have unless they say otherwise.
""",
    ),
    (
        "node",
        """\
## Settings of a node

Given at its start, on the command line (`tidelog serve --set num.partitions=4`) or in a file
(`tidelog serve --config tidelog.toml`, under `[settings]`). A change needs a restart.
""",
    ),
    (
        "group",
        """\
## Settings of a group

Of a group of the consumer protocol (`tidelog config set group billing
consumer.session.timeout.ms=60000`), before there is one or while it runs: members are told with
their next heartbeat.
""",
    ),
)


def markdown() -> str:
    """The whole page."""
    return _HEAD + "".join(f"\n{text}\n{_rows(scope)}" for scope, text in _SECTIONS)


def _rows(scope: Scope) -> str:
    head = "| setting | default | may be | what it does |\n|---|---|---|---|\n"
    return head + "".join(_lines(setting for setting in SETTINGS if setting.scope == scope))


def _lines(settings: Iterator[Setting]) -> Iterator[str]:
    for setting in settings:
        default = default_text(setting)
        means = meaning(setting.name, default)
        shown = f"`{default}`" + (f" ({means})" if means else "")
        allowed = bounds(setting) + (f" {setting.unit}" if setting.unit else "")
        doc = setting.doc.replace("|", "\\|")
        yield f"| `{setting.name}` | {shown} | {allowed} | {doc} |\n"


if __name__ == "__main__":
    print(markdown(), end="")

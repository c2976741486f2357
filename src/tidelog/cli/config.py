"""`tidelog config list|describe|set|unset`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from tidelog.cli.failure import CommandFailed
from tidelog.cli.names import topic_names, topic_setting_names, topic_setting_pairs
from tidelog.cli.options import AsJson, Bootstrap, named, pairs
from tidelog.cli.output import add_rows, emit_json, people, table
from tidelog.cli.setting_text import bounds, default_text, meaning, source_word
from tidelog.cli.settings_page import markdown
from tidelog.client import Admin, ClientError, Connection
from tidelog.client.admin import TopicSetting
from tidelog.client.connection import DEFAULT_BOOTSTRAP
from tidelog.model.broker_synonyms import BROKER_SYNONYMS
from tidelog.model.settings import SETTINGS, Setting

app = typer.Typer(
    help="Explain, show and change settings.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    epilog="Example: `tidelog config set topic orders retention.ms=3600000`",
)


class Scope(StrEnum):
    """What has settings."""

    TOPIC = "topic"
    NODE = "node"
    GROUP = "group"


Kind = Annotated[Scope, typer.Argument(metavar="topic|node|group", help="Whose settings.")]
Changeable = Annotated[
    Scope, typer.Argument(metavar="topic|group", help="Whose settings: a topic's or a group's.")
]
OwnerName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The topic's or the group's name.",
        autocompletion=topic_names,
        callback=named,
    ),
]


@app.command("list", epilog="Example: `tidelog config list retention --scope topic`")
def list_settings(
    part: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="Only settings with this in their name.")
    ] = "",
    scope: Annotated[
        Scope | None, typer.Option("--scope", metavar="topic|node|group", help="Only these.")
    ] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/settings.md.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain every setting there is: default, what may be set, what it does. Asks no broker."""
    if as_markdown and (as_json or part or scope):
        raise typer.BadParameter("--markdown is the whole page: leave out the rest")
    if as_markdown:
        print(markdown(), end="")
        return
    rows = [row for row in SETTINGS if part in row.name and scope in (None, row.scope)]
    if not rows:
        where = f" of a {scope}" if scope else ""
        raise typer.BadParameter(f"no setting{where} has {part!r} in its name")
    if as_json:
        emit_json([_explained(row) for row in rows])
        return
    for owner in Scope:
        _print_settings(owner, [row for row in rows if row.scope == owner])


@app.command(epilog="Example: `tidelog config describe topic orders`")
def describe(
    kind: Kind,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="The topic's or group's name, or the node's id if there are several.",
            autocompletion=topic_names,
            callback=named,
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show all settings of a topic, node or group as they are now, its own values first."""
    if kind is not Scope.NODE and name is None:
        raise typer.BadParameter(f"say which {kind}: `tidelog config describe {kind} NAME`")
    if kind is Scope.NODE and not (name is None or name.isdecimal()):
        raise typer.BadParameter(f"a node's name is its number, not {name!r}")
    admin = Admin(Connection(bootstrap))
    if kind is not Scope.NODE:
        assert name is not None
        owner, found = name, _settings(admin, kind, name)
    else:
        node_id = _node_id(admin, name)
        owner, found = str(node_id), admin.node_settings(node_id)
    if as_json:
        emit_json({kind.value: owner, "settings": setting_rows(found)})
    elif kind is not Scope.NODE:
        print_values(found)
    else:
        _print_node(found)


@app.command("set", epilog="Example: `tidelog config set topic orders retention.ms=3600000`")
def set_values(
    kind: Changeable,
    name: OwnerName,
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE",
            help="What to set; one or more.",
            autocompletion=topic_setting_pairs,
        ),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Set settings of a topic or group: all of them or, if one is refused, none. Works at once."""
    _refuse_node(kind)
    _change(kind, name, pairs(changes, option="KEY=VALUE"), bootstrap=bootstrap, as_json=as_json)


@app.command(epilog="Example: `tidelog config unset topic orders retention.ms`")
def unset(
    kind: Changeable,
    name: OwnerName,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY", help="Which; one or more.", autocompletion=topic_setting_names
        ),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Take a topic's or group's own values away: the node's, or else the default, hold again."""
    _refuse_node(kind)
    _change(kind, name, dict.fromkeys(keys), bootstrap=bootstrap, as_json=as_json)


def _node_id(admin: Admin, name: str | None) -> int:
    """The node of that number, or the first there is."""
    known = admin.node_ids()
    if name is None:
        return known[0]
    if name not in map(str, known):
        numbers = ", ".join(map(str, known))
        raise CommandFailed(f"there is no node {name}: there is {numbers}")
    return int(name)


# --- changing ---------------------------------------------------------------------------------


def _refuse_node(kind: Scope) -> None:
    if kind is Scope.NODE:
        raise typer.BadParameter(
            "a node gets its settings when it starts: `tidelog serve --set NAME=VALUE`"
        )


def _settings(admin: Admin, kind: Scope, name: str) -> dict[str, TopicSetting]:
    return admin.group_settings(name) if kind is Scope.GROUP else admin.settings(name)


def _change(
    kind: Scope, name: str, changes: Mapping[str, str | None], *, bootstrap: str, as_json: bool
) -> None:
    admin = Admin(Connection(bootstrap))
    if kind is Scope.GROUP:
        admin.alter_group_settings(name, changes)
    else:
        alter_settings(admin, name, changes)
    now = _settings(admin, kind, name)
    if as_json:
        emit_json({kind.value: name, "settings": setting_rows(_only(now, changes))})
    else:
        print_changes(name, _only(now, changes), own=kind.value)


def _only(
    settings: Mapping[str, TopicSetting], wanted: Mapping[str, str | None]
) -> dict[str, TopicSetting]:
    return {name: settings[name] for name in wanted if name in settings}


def alter_settings(admin: Admin, topic: str, changes: Mapping[str, str | None]) -> None:
    """As `Admin`'s, but a name that is nearly right is answered with the right one. Brokers take
    nothing amiss that is to be taken away and is not there, so that is looked for here."""
    known = [row.name for row in SETTINGS if row.scope == "topic"]
    unknown = [name for name in changes if name not in known]
    for name in unknown:
        if changes[name] is None and name not in admin.settings(topic):
            raise ClientError(f"unknown topic setting {name!r}: {_hint(name, known)}")
    try:
        admin.alter_settings(topic, changes)
    except ClientError as error:
        for name in unknown:
            if name in str(error):
                raise ClientError(f"{error}: {_hint(name, known)}") from None
        raise


def _hint(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else "see `tidelog config list`"


# --- showing ----------------------------------------------------------------------------------


def setting_rows(settings: Mapping[str, TopicSetting]) -> list[dict[str, Any]]:
    """For programs: the owner's own values first, then the node's, then the defaults."""
    return [
        {"name": name, "value": setting.value, "source": source_word(setting.source)}
        for name, setting in _in_order(settings)
    ]


def _in_order(settings: Mapping[str, TopicSetting]) -> list[tuple[str, TopicSetting]]:
    rank = {"topic": 0, "group": 0, "node": 1, "default": 3}
    return sorted(
        settings.items(), key=lambda row: (rank.get(source_word(row[1].source), 2), row[0])
    )


def print_values(settings: Mapping[str, TopicSetting]) -> None:
    """A table of all of them, in the same order."""
    rows = (
        (name, setting.value or "", meaning(name, setting.value), source_word(setting.source))
        for name, setting in _in_order(settings)
    )
    people().print(add_rows(table("~Setting", "~Value", "Means", "From"), rows))


def _print_node(settings: Mapping[str, TopicSetting]) -> None:
    """Its own, and below them what its topics have unless they say otherwise, under the names that
    topics use."""
    of_topics = {row.name for row in SETTINGS if row.scope == "topic"}
    shown_there = {synonym.name for names in BROKER_SYNONYMS.values() for synonym in names}
    hidden = of_topics | shown_there
    print_values({name: each for name, each in settings.items() if name not in hidden})
    inherited = {name: each for name, each in settings.items() if name in of_topics}
    if inherited:
        people().print("\nWhat its topics have unless they say otherwise:\n")
        print_values(inherited)


def print_changes(owner: str, settings: Mapping[str, TopicSetting], *, own: str = "topic") -> None:
    """What has been changed is now."""
    for name, setting in settings.items():
        means = meaning(name, setting.value)
        source = source_word(setting.source)
        notes = [note for note in (means, "" if source == own else f"from the {source}") if note]
        shown = f" ({', '.join(notes)})" if notes else ""
        people().print(f"{owner}: {name} is {setting.value}{shown}", soft_wrap=True)


def _explained(setting: Setting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "scope": setting.scope,
        "type": setting.kind,
        "default": setting.default,
        "unit": setting.unit or None,
        "low": setting.low,
        "high": setting.high,
        "choices": list(setting.choices) or None,
        "live": setting.live,
        "doc": setting.doc,
    }


def _print_settings(owner: Scope, settings: list[Setting]) -> None:
    if not settings:
        return
    console = people()
    how = {
        Scope.TOPIC: "a change works at once",
        Scope.NODE: "given at its start: `tidelog serve --set NAME=VALUE`",
        Scope.GROUP: "a change works with the next heartbeat",
    }
    console.print(Text(f"Settings of a {owner}; {how[owner]}", style="bold"))
    for setting in settings:
        default = default_text(setting)
        means = meaning(setting.name, default)
        line = Text(setting.name, style="cyan").append(f" = {default}", style="not cyan")
        line.append(f" ({means})" if means else "", style="dim not cyan")
        console.print()
        console.print(line, soft_wrap=True)
        unit = f" {setting.unit}" if setting.unit else ""
        console.print(
            Padding(f"{setting.doc} ({bounds(setting)}{unit})", (0, 0, 0, 4), expand=False)
        )
    console.print()

"""The Tab key: scripts that a shell accepts, and what they offer when no broker answers."""

from __future__ import annotations

import socket
import subprocess

import pytest
from tests.support.command_line import CommandLine
from tests.support.tab_key import TabKey

from tidelog.cli.app import NOUNS
from tidelog.cli.serve import parser


@pytest.fixture
def tab(monkeypatch: pytest.MonkeyPatch, tidelog: CommandLine) -> TabKey:
    return TabKey(monkeypatch, tidelog)


def test_bash_accepts_its_script(tidelog: CommandLine) -> None:
    script = tidelog("completion", "bash").output
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "complete -o default -F _tidelog_completion tidelog" in script


@pytest.mark.parametrize(("shell", "said"), [("zsh", "#compdef tidelog"), ("fish", "complete ")])
def test_the_other_shells_have_a_script_too(tidelog: CommandLine, shell: str, said: str) -> None:
    outcome = tidelog("completion", shell)
    assert outcome.code == 0
    assert said in outcome.output
    assert "_TIDELOG_COMPLETE" in outcome.output


def test_every_noun_is_offered(tab: TabKey) -> None:
    assert tab("") == [noun.name for noun in NOUNS]
    assert tab("gr") == ["group"]


def test_every_verb_is_offered(tab: TabKey) -> None:
    assert tab("group", "") == ["list", "describe", "reset-offsets", "delete-offsets", "delete"]


def test_options_are_offered(tab: TabKey) -> None:
    assert "--all-topics" in tab("group", "reset-offsets", "billing", "--")
    assert tab("group", "list", "--state", "") == ["stable", "empty", "rebalancing"]


def test_the_options_of_serve_are_offered_although_it_is_no_typer_command(tab: TabKey) -> None:
    known = [name for action in parser()._actions for name in action.option_strings]
    offered = tab("serve", "--")
    assert [name for name in known if name.startswith("--") and name not in offered] == []


def test_settings_and_their_choices_are_offered(tab: TabKey) -> None:
    assert tab("topic", "alter", "orders", "--set", "segm") == [
        "segment.bytes=",
        "segment.ms=",
        "segment.jitter.ms=",
        "segment.index.bytes=",
    ]
    assert tab("config", "set", "topic", "orders", "flush.policy=") == [
        "flush.policy=ack",
        "flush.policy=os",
    ]
    assert tab("config", "unset", "topic", "orders", "flush.p") == ["flush.policy"]
    assert "num.partitions=" in tab("serve", "--set", "num")


def test_without_a_broker_no_names_are_offered(tab: TabKey) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        assert tab("topic", "describe", "--bootstrap", address, "") == []
        assert tab("group", "describe", "--bootstrap", address, "") == []
    assert tab("group", "describe", "--bootstrap", "nonsense", "") == []

"""What the Tab key would offer: the question a shell asks, in this process."""

from __future__ import annotations

import shlex

import pytest
from tests.support.command_line import CommandLine


class TabKey:
    """`tab("group", "de")` gives what may stand instead of the last word."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tidelog: CommandLine) -> None:
        self._monkeypatch = monkeypatch
        self._tidelog = tidelog

    def __call__(self, *words: str) -> list[str]:
        with self._monkeypatch.context() as context:
            context.setenv("_TIDELOG_COMPLETE", "complete_bash")
            context.setenv("COMP_WORDS", shlex.join(["tidelog", *words]))
            context.setenv("COMP_CWORD", str(len(words)))
            return self._tidelog().output.split()

"""The `tidelog` command as a test calls it: in this process, with its real exit code."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest

from tidelog.cli.main import main

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)


class CommandLine:
    """Runs commands at an 80-column terminal without colours."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Outcome:
        self._capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        output, errors = self._capsys.readouterr()
        return Outcome(code, _COLOUR.sub("", output), _COLOUR.sub("", errors))

"""Transcripts of groups, the quorum, elections and replicas: stories, and what is told must happen.

A transcript is a text file of comments (`#`), and of commands followed by dashes and the whole
reaction. Its folder says on which stage it is played. Where behaviour was changed on purpose, write
the transcripts anew with `python -m tests.scenarios.test_scenarios` and read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from tests.scenarios.election_stage import ElectionStage
from tests.scenarios.quorum_stage import QuorumStage
from tests.scenarios.replication_stage import ReplicationStage
from tests.scenarios.stage import Stage

_HERE = Path(__file__).parent
_DASHES = "----"


class Player(Protocol):
    """Carries out a command; gives the reaction, line by line."""

    def play(self, command: str) -> list[str]: ...


STAGES: dict[str, Callable[[], Player]] = {
    ".": Stage,
    "elections": ElectionStage,
    "quorum": QuorumStage,
    "replication": ReplicationStage,
}
TRANSCRIPTS = [
    (folder, path) for folder in STAGES for path in sorted((_HERE / folder).glob("*.txt"))
]


def played(transcript: str, stage: Player) -> str:
    """The transcript as it happens."""
    blocks = []
    for block in transcript.strip().split("\n\n"):
        lines = block.splitlines()
        comments = [line for line in lines if line.startswith("#")]
        spoken = [line for line in lines if not line.startswith("#")]
        if spoken:
            command = spoken[0]
            blocks.append("\n".join([*comments, command, _DASHES, *stage.play(command)]))
        else:
            blocks.append("\n".join(comments))
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize(
    ("folder", "path"), TRANSCRIPTS, ids=[f"{f}/{p.stem}" for f, p in TRANSCRIPTS]
)
def test_what_is_told_happens(folder: str, path: Path) -> None:
    transcript = path.read_text()
    assert played(transcript, STAGES[folder]()) == transcript


def test_there_are_transcripts_of_everything() -> None:
    count = {name: sum(folder == name for folder, _ in TRANSCRIPTS) for name in STAGES}
    assert count["."] >= 8
    assert count["elections"] >= 6
    assert count["quorum"] >= 8
    assert count["replication"] >= 4


if __name__ == "__main__":
    for folder, path in TRANSCRIPTS:
        path.write_text(played(path.read_text(), STAGES[folder]()))

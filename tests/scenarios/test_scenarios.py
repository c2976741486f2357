"""Transcripts of groups and of elections: each is a story, and what is told must happen.

A transcript is a text file of comments (`#`), and of commands followed by dashes and the whole
reaction. Where behaviour was changed on purpose, write the transcripts anew with
`python -m tests.scenarios.test_scenarios` and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenarios.election_stage import ElectionStage
from tests.scenarios.stage import Stage

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
ELECTIONS = sorted((Path(__file__).parent / "elections").glob("*.txt"))
_DASHES = "----"


def played(transcript: str, stage: Stage | ElectionStage) -> str:
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


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_what_is_told_of_groups_happens(path: Path) -> None:
    transcript = path.read_text()
    assert played(transcript, Stage()) == transcript


@pytest.mark.parametrize("path", ELECTIONS, ids=lambda path: path.stem)
def test_what_is_told_of_elections_happens(path: Path) -> None:
    transcript = path.read_text()
    assert played(transcript, ElectionStage()) == transcript


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 8
    assert len(ELECTIONS) >= 6


if __name__ == "__main__":
    for path in TRANSCRIPTS:
        path.write_text(played(path.read_text(), Stage()))
    for path in ELECTIONS:
        path.write_text(played(path.read_text(), ElectionStage()))

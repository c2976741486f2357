"""Transcripts of the group protocols and of the quorum: stories, and what is told must happen.

A transcript is a text file of comments (`#`), and of commands followed by dashes and the whole
reaction. Where behaviour was changed on purpose, write the transcripts anew with
`python -m tests.scenarios.test_scenarios` and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenarios.quorum_stage import QuorumStage
from tests.scenarios.stage import Stage

_HERE = Path(__file__).parent
TRANSCRIPTS = sorted(_HERE.glob("*.txt"))
QUORUM_TRANSCRIPTS = sorted(_HERE.glob("quorum/*.txt"))
_DASHES = "----"


def played(transcript: str, stage: Stage | QuorumStage) -> str:
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
def test_what_is_told_happens(path: Path) -> None:
    transcript = path.read_text()
    assert played(transcript, Stage()) == transcript


@pytest.mark.parametrize("path", QUORUM_TRANSCRIPTS, ids=lambda path: path.stem)
def test_what_is_told_of_the_quorum_happens(path: Path) -> None:
    transcript = path.read_text()
    assert played(transcript, QuorumStage()) == transcript


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 8
    assert len(QUORUM_TRANSCRIPTS) >= 8


if __name__ == "__main__":
    for path in TRANSCRIPTS:
        path.write_text(played(path.read_text(), Stage()))
    for path in QUORUM_TRANSCRIPTS:
        path.write_text(played(path.read_text(), QuorumStage()))

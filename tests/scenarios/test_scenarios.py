"""Transcripts of the group protocols and of replication: each is a story, and what is told must
happen.

A transcript is a text file of comments (`#`), and of commands followed by dashes and the whole
reaction. Where behaviour was changed on purpose, write the transcripts anew with
`python -m tests.scenarios.test_scenarios` and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenarios.replication_stage import ReplicationStage
from tests.scenarios.stage import Stage

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
REPLICATION = sorted(Path(__file__).parent.glob("replication/*.txt"))
_DASHES = "----"


def played(transcript: str, stage: Stage | ReplicationStage) -> str:
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


@pytest.mark.parametrize("path", REPLICATION, ids=lambda path: path.stem)
def test_what_is_told_of_replicas_happens(path: Path) -> None:
    transcript = path.read_text()
    assert played(transcript, ReplicationStage()) == transcript


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 8
    assert len(REPLICATION) >= 4


if __name__ == "__main__":
    for path in TRANSCRIPTS:
        path.write_text(played(path.read_text(), Stage()))
    for path in REPLICATION:
        path.write_text(played(path.read_text(), ReplicationStage()))

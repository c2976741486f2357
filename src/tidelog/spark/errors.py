"""What the pipeline raises for people to read: one sentence that says what to do."""

from __future__ import annotations


class PipelineError(Exception):
    """The message is complete in itself; the command line prints it and nothing else."""

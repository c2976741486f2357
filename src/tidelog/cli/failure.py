"""What a command raises when it can't do what it was asked: one sentence, exit code 1."""

from __future__ import annotations


class CommandFailed(Exception):
    """The message is a sentence for the user, complete in itself."""

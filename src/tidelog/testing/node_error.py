"""What a test did that can't be, or what became of its node, in one sentence."""

from __future__ import annotations


class NodeError(Exception):
    """The message says what to do."""

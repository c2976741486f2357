"""*The peer is wrong*: the one exception a decoder raises."""

from __future__ import annotations


class DecodeError(Exception):
    """The bytes are not what the protocol says. The message is for the log, not for the peer."""

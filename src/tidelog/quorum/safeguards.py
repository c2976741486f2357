"""The safeguards of the quorum that tests may switch off, to prove that they would notice.

The same manner as `tidelog.model.safeguards`: code asks `X in safeguards`, and only tests ever
build a set without one. Each member's comment is the bug that its absence lets in.
"""

from __future__ import annotations

from enum import Enum, auto


class QuorumSafeguard(Enum):
    """One protection each. Off = ablated."""

    VOTE_DURABLE = auto()  # a replica votes twice in one epoch: two leaders of one epoch
    OWN_EPOCH_FIRST = auto()  # an old epoch's record, committed by count alone, is overwritten


ALL_QUORUM_SAFEGUARDS: frozenset[QuorumSafeguard] = frozenset(QuorumSafeguard)

"""What an answer proves. Getting this wrong makes every checker lie, so it stands in one place."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.sim.history import EntryType

PROOF_OF_NO_EFFECT = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""Checked before anything is appended. Every other error may come after the fact."""


def type_of(error: ErrorCode) -> EntryType:
    """`ok`, `fail` (it certainly did not happen) or `info` (nobody knows)."""
    if error is ErrorCode.NONE:
        return "ok"
    return "fail" if error in PROOF_OF_NO_EFFECT else "info"

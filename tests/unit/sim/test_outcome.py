"""What an answer proves: the table that every checker stands on."""

from __future__ import annotations

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.outcome import type_of


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    ],
)
def test_an_error_that_is_checked_before_the_append_proves_no_effect(error: ErrorCode) -> None:
    assert type_of(error) == "fail"


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CORRUPT_MESSAGE,
    ],
)
def test_any_other_error_may_come_after_the_fact(error: ErrorCode) -> None:
    assert type_of(error) == "info"


def test_no_error_is_ok() -> None:
    assert type_of(ErrorCode.NONE) == "ok"

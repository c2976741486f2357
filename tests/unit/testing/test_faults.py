"""Which requests a fault strikes, and how often."""

from __future__ import annotations

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.testing.faults import TEST_CLIENT_ID, Delay, Faults, Refusal, error_named
from tidelog.wire.requests import RequestHeader

PRODUCE = RequestHeader(0, 9, 1, "app")
FETCH = RequestHeader(1, 12, 2, "app")


def test_a_fault_strikes_as_often_as_it_was_told() -> None:
    faults = Faults()
    fault = faults.add(Refusal("Produce", 2))
    struck = [faults.strike(Refusal, PRODUCE) for _ in range(3)]
    assert struck == [fault, fault, None]
    assert fault.hits == 2
    assert fault.is_over


def test_a_fault_strikes_only_its_api_and_only_in_its_way() -> None:
    faults = Faults()
    faults.add(Refusal("Produce"))
    assert faults.strike(Refusal, FETCH) is None
    assert faults.strike(Delay, PRODUCE) is None


def test_faults_of_one_api_strike_one_after_the_other() -> None:
    faults = Faults()
    first = faults.add(Refusal("Produce", error=ErrorCode.REQUEST_TIMED_OUT))
    second = faults.add(Refusal("Produce", error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert [faults.strike(Refusal, PRODUCE) for _ in range(2)] == [first, second]


def test_a_fault_without_a_number_strikes_until_it_is_lifted() -> None:
    faults = Faults()
    fault = faults.add(Refusal("Produce", None))
    assert all(faults.strike(Refusal, PRODUCE) for _ in range(10))
    fault.lift()
    assert faults.strike(Refusal, PRODUCE) is None


def test_the_tests_own_requests_are_spared() -> None:
    faults = Faults()
    faults.add(Refusal("Produce", None))
    assert faults.strike(Refusal, PRODUCE._replace(client_id=TEST_CLIENT_ID)) is None


def test_a_misspelt_api_is_refused_with_what_was_meant() -> None:
    with pytest.raises(ValueError, match="did you mean 'Produce'"):
        Faults().add(Refusal("produce"))


def test_a_misspelt_error_is_refused_with_what_was_meant() -> None:
    assert error_named("REQUEST_TIMED_OUT") is ErrorCode.REQUEST_TIMED_OUT
    assert error_named(ErrorCode.NOT_COORDINATOR) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(ValueError, match="did you mean 'NOT_LEADER_OR_FOLLOWER'"):
        error_named("NOT_LEADER")

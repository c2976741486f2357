"""Percentiles, medians, and what a generator's run amounts to."""

from __future__ import annotations

import pytest

from tidelog.bench.figures import (
    Latencies,
    Outcome,
    median,
    outcome_from_json,
    outcome_to_json,
    percentile,
)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(value) for value in range(1, 1001)]
    assert percentile(values, 0.50) == 500
    assert percentile(values, 0.99) == 990
    assert percentile(values, 0.999) == 999
    assert percentile(values, 1.0) == 1000


def test_the_percentiles_of_one_value_are_that_value() -> None:
    assert percentile([7.0], 0.5) == percentile([7.0], 0.999) == 7.0


def test_a_tail_percentile_of_few_values_is_the_worst() -> None:
    assert percentile([1.0, 2.0, 3.0], 0.999) == 3.0


def test_nothing_measured_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_the_median_ignores_one_bad_round() -> None:
    assert median([10.0, 1000.0, 11.0]) == 11.0
    assert median([1.0, 3.0]) == 2.0


def test_latencies_are_told_in_milliseconds() -> None:
    latencies = Latencies.of_seconds([0.004, 0.001, 0.002, 0.003])
    assert latencies.p50_ms == pytest.approx(2.0)
    assert latencies.max_ms == pytest.approx(4.0)


def _outcome(latencies: Latencies | None = None) -> Outcome:
    return Outcome(
        seconds=2.0,
        requests=1_000,
        records=1_000_000,
        data_bytes=10**9,
        total_records=1_200_000,
        server_cpu_seconds=0.5,
        generator_cpu_seconds=0.25,
        latencies=latencies,
        first_response=b"\x00\xff",
    )


def test_an_outcome_tells_rates_and_the_price_of_a_gigabyte() -> None:
    outcome = _outcome()
    assert outcome.records_per_second == 500_000
    assert outcome.bytes_per_second == 5e8
    assert outcome.server_cpu_per_gb == pytest.approx(0.5)
    assert outcome.server_busy == pytest.approx(0.25)
    assert outcome.generator_busy == pytest.approx(0.125)


@pytest.mark.parametrize("latencies", [None, Latencies(1.0, 2.0, 3.0, 4.0)])
def test_an_outcome_survives_the_way_from_the_generator(latencies: Latencies | None) -> None:
    outcome = _outcome(latencies)
    assert outcome_from_json(outcome_to_json(outcome)) == outcome

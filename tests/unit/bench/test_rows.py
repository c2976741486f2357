"""Samples become rows, rows become verdicts and files."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidelog.bench import report
from tidelog.bench.rows import ROW_SPECS, Row, RowSpec, Target, build_rows
from tidelog.bench.samples import SampleKey, Samples
from tidelog.bench.suite import LINES
from tidelog.cli.bench import What

SPECS = (
    RowSpec(
        "produce: msg/s",
        "produce",
        "records_per_s",
        (Target("ratio", at_least=0.6), Target("kafka", at_least=1.3)),
    ),
    RowSpec(
        "flushed: msg/s",
        "flushed",
        "records_per_s",
        (Target("ratio", at_least=0.6),),
        baseline="produce",
    ),
)


def _samples() -> Samples:
    samples = Samples()
    samples.add(SampleKey("produce", "reference", "raw"), {"records_per_s": 1000.0})
    for value in (700.0, 10.0, 800.0):
        samples.add(SampleKey("produce", "node", "raw"), {"records_per_s": value})
    return samples


def _rows(samples: Samples) -> list[Row]:
    return build_rows(samples, SPECS)


def test_a_row_holds_the_median_against_the_reference() -> None:
    (row,) = _rows(_samples())
    assert row.raw == 700.0
    assert row.ratio == pytest.approx(0.7)
    assert row.verdict is True


def test_a_line_that_was_not_run_leaves_no_row() -> None:
    assert [row.title for row in _rows(_samples())] == ["produce: msg/s"]
    assert _rows(Samples()) == []


def test_a_target_about_kafka_is_judged_only_beside_a_kafka() -> None:
    samples = _samples()
    assert "Kafka" not in _rows(samples)[0].targets
    samples.add(SampleKey("produce", "kafka", "raw"), {"records_per_s": 690.0})
    (row,) = _rows(samples)
    assert row.targets == "≥ 0.6 R, ≥ 1.3 Kafka"
    assert row.verdict is False


def test_a_row_may_be_held_against_another_line_of_the_node() -> None:
    samples = _samples()
    samples.add(SampleKey("flushed", "node", "raw"), {"records_per_s": 350.0})
    row = _rows(samples)[1]
    assert row.baseline == 700.0
    assert row.ratio == pytest.approx(0.5)
    assert row.verdict is False


def test_a_figure_that_the_generator_bounds_is_marked() -> None:
    samples = _samples()
    samples.add(SampleKey("produce", "node", "raw"), {"generator_busy": 0.99})
    (row,) = _rows(samples)
    assert report.cells(row, has_kafka=False)[2] == "700*"
    assert any(note.startswith("*") for note in report.notes([row]))


def test_every_row_of_the_table_has_a_title_of_its_own() -> None:
    titles = [spec.title for spec in ROW_SPECS]
    assert len(set(titles)) == len(titles)


def test_the_command_line_offers_every_line() -> None:
    assert [what.value for what in What] == ["all", *LINES, "scale"]


def test_every_baseline_is_a_line_of_some_row_or_measured_beside_it() -> None:
    baselines = {spec.baseline for spec in ROW_SPECS if spec.baseline}
    beside = {"produce.os", "partitions.1", "connections.1", "compaction.none"}
    beside |= {"replicated.os", "cold.none"}
    spark = {"spark.connector", "spark.archive.writer"}
    parquet = {f"spark.{what}.parquet" for what in ("scan", "column", "write")}
    assert baselines <= beside | spark | parquet


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0.00"),
        (0.00123, "0.0012"),
        (0.1234, "0.12"),
        (12.34, "12.3"),
        (123.4, "123"),
        (1234567.8, "1,234,568"),
    ],
)
def test_a_figure_shows_the_digits_that_mean_something(value: float | None, text: str) -> None:
    assert report.shown(value) == text


@pytest.mark.parametrize("has_kafka", [False, True])
def test_the_table_has_a_cell_for_every_column(has_kafka: bool) -> None:
    (row,) = _rows(_samples())
    columns = report.columns(has_kafka=has_kafka)
    assert len(report.cells(row, has_kafka=has_kafka)) == len(columns)


def test_a_run_leaves_its_table_and_every_round(tmp_path: Path) -> None:
    samples = _samples()
    rows = _rows(samples)
    at = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    facts = {"cores": "2"}
    path = report.write_results(
        tmp_path / "results",
        at=at,
        text=report.markdown(rows, facts, has_kafka=False),
        document=report.as_json(rows, facts, samples, at=at),
    )
    assert path.name == "2024-05-06T070809.md"
    assert "| produce: msg/s | 0.70 | 700 |" in path.read_text()
    document = json.loads(path.with_suffix(".json").read_text())
    assert document["machine"] == facts
    assert document["samples"][1]["metrics"]["records_per_s"] == [700.0, 10.0, 800.0]

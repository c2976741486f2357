"""The table of what metadata costs as clusters grow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine

from tidelog.bench import scale
from tidelog.bench.scale import FIGURES, Row, Size


def test_growth_is_the_power_by_which_a_figure_grows() -> None:
    rows = [Row(Size(n, p), {"x": 2.0 * p, "y": n**0.5}) for n in (3, 27) for p in (10, 1_000)]
    assert scale.partition_growth(rows, "x") == pytest.approx(1.0)
    assert scale.partition_growth(rows, "y") == pytest.approx(0.0)
    assert scale.node_growth(rows, "x") == pytest.approx(0.0)
    assert scale.node_growth(rows, "y") == pytest.approx(0.5)
    assert scale.node_growth(rows[:2], "x") is None


def test_each_figure_is_measured_at_each_size() -> None:
    said: list[str] = []
    rows = scale.measure([Size(3, 100), Size(4, 200)], said.append)
    assert said == ["3 nodes, 100 partitions", "4 nodes, 200 partitions"]
    for row in rows:
        assert list(row.ms) == [figure.key for figure in FIGURES]
        assert all(figure > 0 for figure in row.ms.values())


def test_the_table_fits_80_columns_and_its_figures_go_to_a_file(
    tidelog: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "QUICK", [Size(3, 100), Size(100, 100_000 // 100)])
    path = tmp_path / "scale.json"
    shown = tidelog("bench", "scale", "--quick", "--json", str(path))
    assert shown.code == 0
    assert max(map(len, shown.output.splitlines())) <= 80
    document = json.loads(path.read_text())
    assert [row["partitions"] for row in document["rows"]] == [100, 1_000]
    assert set(document["growth"]) == {figure.key for figure in FIGURES}

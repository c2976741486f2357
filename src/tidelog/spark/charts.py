"""Charts as PNG files, drawn without a display: figures are made directly, not by pyplot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.errors import PipelineError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE = "#2266aa"
_DPI = 120


def bars(
    path: Path, names: Sequence[str], heights: Sequence[float], *, title: str, unit: str
) -> Path:
    """One bar for each name."""
    figure, axes = _canvas(title, unit)
    axes.bar(range(len(names)), heights, color=_BLUE)
    axes.set_xticks(range(len(names)), list(names), rotation=30, ha="right")
    return _saved(figure, path)


def curve(
    path: Path, times_ms: Sequence[int], heights: Sequence[float], *, title: str, unit: str
) -> Path:
    """A line over time, in UTC."""
    figure, axes = _canvas(title, unit)
    moments = [datetime.fromtimestamp(each / 1000, UTC) for each in times_ms]
    axes.fill_between(moments, heights, step="post", color=_BLUE, alpha=0.25)  # type: ignore[arg-type]
    axes.step(moments, heights, where="post", color=_BLUE)  # type: ignore[arg-type]
    figure.autofmt_xdate()
    return _saved(figure, path)


def _canvas(title: str, unit: str) -> tuple[Figure, Axes]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PipelineError('charts need matplotlib: pip install "tidelog[spark]"') from None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _saved(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI)
    return path

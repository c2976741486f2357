"""Figures as they come in, and what becomes of several of the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tidelog.bench.figures import Outcome, median
from tidelog.bench.servers import Kind

Driver = Literal["raw", "client"]


class SampleKey(NamedTuple):
    """Which line of the table, which server, driven how."""

    line: str
    server: Kind
    driver: Driver


@dataclass(slots=True)
class Samples:
    """All figures of a run: for each key and metric, the values in the order they were taken."""

    values: dict[SampleKey, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, key: SampleKey, metrics: Mapping[str, float]) -> None:
        kept = self.values.setdefault(key, {})
        for metric, value in metrics.items():
            kept.setdefault(metric, []).append(value)

    def median(self, key: SampleKey, metric: str) -> float | None:
        """None if it was not measured."""
        values = self.values.get(key, {}).get(metric)
        return median(values) if values else None

    def is_empty(self) -> bool:
        return not self.values

    def to_json(self) -> list[dict[str, object]]:
        return [
            {"line": key.line, "server": key.server, "driver": key.driver, "metrics": metrics}
            for key, metrics in self.values.items()
        ]


def metrics_of(outcome: Outcome, *, has_cpu: bool) -> dict[str, float]:
    """What the table may show of a generator's run. Without a process to look at, no CPU."""
    metrics = {
        "records_per_s": outcome.records_per_second,
        "requests_per_s": outcome.requests_per_second,
        "mb_per_s": outcome.bytes_per_second / 1e6,
        "generator_busy": outcome.generator_busy,
    }
    if has_cpu:
        metrics["server_busy"] = outcome.server_busy
        metrics["cpu_us_per_request"] = outcome.server_cpu_seconds / max(outcome.requests, 1) * 1e6
        if outcome.data_bytes:
            metrics["cpu_s_per_gb"] = outcome.server_cpu_per_gb
    if outcome.latencies is not None:
        metrics["p50_ms"] = outcome.latencies.p50_ms
        metrics["p99_ms"] = outcome.latencies.p99_ms
        metrics["p999_ms"] = outcome.latencies.p999_ms
    return metrics

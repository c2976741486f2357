"""Pure arithmetic of measurements: percentiles, medians, what one run of a generator brought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

GB = 1e9
MB = 1e6

GENERATOR_BOUND = 0.95
"""A generator busier than this share of a core is what limited the figure."""


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the `ordered` values that at least `share` of them do not exceed."""
    if not ordered:
        raise ValueError("no values, no percentile")
    rank = -int(-share * len(ordered) // 1)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def median(values: Sequence[float]) -> float:
    """The middle value; of an even number, the mean of the two in the middle."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values, no median")
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds."""

    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float

    @classmethod
    def of_seconds(cls, seconds: Sequence[float]) -> Latencies:
        ordered = sorted(seconds)
        return cls(
            p50_ms=percentile(ordered, 0.50) * 1e3,
            p99_ms=percentile(ordered, 0.99) * 1e3,
            p999_ms=percentile(ordered, 0.999) * 1e3,
            max_ms=ordered[-1] * 1e3,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a generator did within its measuring window.

    `requests`, `records` and `data_bytes` count what was answered between the window's ends;
    `total_records` what was answered from first to last, to be compared with the log.
    """

    seconds: float
    requests: int
    records: int
    data_bytes: int
    total_records: int
    server_cpu_seconds: float
    generator_cpu_seconds: float
    latencies: Latencies | None = None
    first_response: bytes = field(default=b"", repr=False)

    @property
    def bytes_per_second(self) -> float:
        return self.data_bytes / self.seconds

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def server_cpu_per_gb(self) -> float:
        return self.server_cpu_seconds / (self.data_bytes / GB) if self.data_bytes else 0.0

    @property
    def server_busy(self) -> float:
        """Cores that the server used."""
        return self.server_cpu_seconds / self.seconds

    @property
    def generator_busy(self) -> float:
        """Cores that the generator used."""
        return self.generator_cpu_seconds / self.seconds


def outcome_to_json(outcome: Outcome) -> dict[str, object]:
    """As a generator process prints it."""
    latencies = outcome.latencies
    return {
        "seconds": outcome.seconds,
        "requests": outcome.requests,
        "records": outcome.records,
        "data_bytes": outcome.data_bytes,
        "total_records": outcome.total_records,
        "server_cpu_seconds": outcome.server_cpu_seconds,
        "generator_cpu_seconds": outcome.generator_cpu_seconds,
        "latencies": latencies
        and [latencies.p50_ms, latencies.p99_ms, latencies.p999_ms, latencies.max_ms],
        "first_response": outcome.first_response.hex(),
    }


def outcome_from_json(fields: dict[str, object]) -> Outcome:
    """The reverse of `outcome_to_json`."""
    values = dict(fields)
    latencies = values.pop("latencies")
    first_response = values.pop("first_response")
    assert isinstance(first_response, str)
    return Outcome(
        **values,  # type: ignore[arg-type]
        latencies=Latencies(*latencies) if isinstance(latencies, list) else None,
        first_response=bytes.fromhex(first_response),
    )

"""A run as text and as JSON, and the files it leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from tidelog.bench.rows import Row
from tidelog.bench.samples import Samples

RESULTS_DIRECTORY = Path("bench-results")
_DASH = "-"


def shown(value: float | None) -> str:
    """Three significant digits, thousands separated."""
    if value is None:
        return _DASH
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.2g}"


def columns(*, has_kafka: bool) -> list[str]:
    """Ratios first: they are what a noisy machine cannot spoil."""
    ratios = ["of R", "of Kafka"] if has_kafka else ["of R"]
    kafka = ["Kafka raw", "Kafka client"] if has_kafka else []
    return ["figure", *ratios, "raw", "librdkafka", "R", *kafka, "target", "met"]


def cells(row: Row, *, has_kafka: bool) -> list[str]:
    """As `columns` names them."""
    ratios = [shown(row.ratio), shown(row.kafka_ratio)] if has_kafka else [shown(row.ratio)]
    kafka = [shown(row.kafka_raw), shown(row.kafka_client)] if has_kafka else []
    raw = shown(row.raw) + ("*" if row.is_generator_bound else "")
    met = {True: "yes", False: "NO", None: ""}[row.verdict]
    middle = [raw, shown(row.client), shown(row.baseline)]
    return [row.title, *ratios, *middle, *kafka, row.targets, met]


def notes(rows: Sequence[Row]) -> list[str]:
    """What a reader of the table must know."""
    said = [
        "R: the raw limit in this run (or, where the row says against, the line it names).",
        "raw: prebuilt requests, the broker's limit; librdkafka: what a client sees. "
        "Medians of the rounds.",
    ]
    if any(row.is_generator_bound for row in rows):
        said.append("*: the generator was busier than the server; the server can do more.")
    return said


def markdown(rows: Sequence[Row], facts: Mapping[str, str], *, has_kafka: bool) -> str:
    """The table and the machine, for a file or a pull request."""
    names = columns(has_kafka=has_kafka)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(cells(row, has_kafka=has_kafka)) + " |" for row in rows]
    lines += ["", *notes(rows), ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    return "\n".join(lines) + "\n"


def as_json(
    rows: Sequence[Row], facts: Mapping[str, str], samples: Samples, *, at: datetime
) -> str:
    """Everything, every round's own value included."""
    document = {
        "at": at.isoformat(timespec="seconds"),
        "machine": dict(facts),
        "rows": [asdict(row) for row in rows],
        "samples": samples.to_json(),
    }
    return json.dumps(document, indent=2) + "\n"


def write_results(directory: Path, *, at: datetime, text: str, document: str) -> Path:
    """`<date>.md` and `<date>.json`; the path of the former."""
    directory.mkdir(parents=True, exist_ok=True)
    stem = at.strftime("%Y-%m-%dT%H%M%S")
    (directory / f"{stem}.json").write_text(document)
    path = directory / f"{stem}.md"
    path.write_text(text)
    return path

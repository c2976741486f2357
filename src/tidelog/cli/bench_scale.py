"""`tidelog bench scale`: what metadata costs as clusters grow, in tables."""

from __future__ import annotations

import json
from pathlib import Path

from tidelog.bench import scale
from tidelog.cli.output import add_rows, aside, people, table


def show(*, is_quick: bool, json_path: Path | None) -> None:
    with aside().status("starting") as status:
        rows = scale.measure(
            scale.QUICK if is_quick else scale.FULL,
            lambda step: status.update(f"measured {step}"),
        )
    console = people()
    made = table("#nodes", "#partitions", *(f"#{each.label}" for each in scale.FIGURES))
    add_rows(made, (_cells(row) for row in rows))
    console.print(made)
    console.print("CPU milliseconds of one step, the least of some rounds; no garbage collector.\n")
    grown = table("column", "~what", "~its work grows with", "#by partitions", "#by nodes")
    add_rows(
        grown,
        (
            (
                each.label,
                each.what,
                each.work.value,
                _power(scale.partition_growth(rows, each.key)),
                _power(scale.node_growth(rows, each.key)),
            )
            for each in scale.FIGURES
        ),
    )
    console.print(grown)
    console.print("Powers: 0 is no growth, 1 as much as partitions or nodes.")
    if json_path is not None:
        json_path.write_text(as_json(rows) + "\n")


def as_json(rows: list[scale.Row]) -> str:
    document = {
        "unit": "CPU ms",
        "rows": [
            {"nodes": row.size.nodes, "partitions": row.size.partitions, **row.ms} for row in rows
        ],
        "growth": {
            each.key: {
                "work": each.work.value,
                "by_partitions": scale.partition_growth(rows, each.key),
                "by_nodes": scale.node_growth(rows, each.key),
            }
            for each in scale.FIGURES
        },
    }
    return json.dumps(document, indent=2)


def _cells(row: scale.Row) -> list[object]:
    return [
        row.size.nodes,
        row.size.partitions,
        *(f"{row.ms[each.key]:.2f}" for each in scale.FIGURES),
    ]


def _power(exponent: float | None) -> str:
    return "-" if exponent is None else f"{exponent:.1f}"

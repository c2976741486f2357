"""`tidelog dump`: look into log and index files, with no broker.

A file is examined into one plain document (`examine`); `--json` prints it, the tables show it.
"""

from __future__ import annotations

import json
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import AsJson
from tidelog.cli.output import add_rows, emit_json, people, plural, size_text, table, time_text
from tidelog.cli.segment_files import base_offset, examine, find_files

app = typer.Typer(rich_markup_mode="markdown")

SHOWN_CHARACTERS = 32
"""Of a key or a value in a table; `--json` has all of it."""

Document = dict[str, Any]


@app.command(
    epilog="Example: `tidelog dump tidelog-data`\n\n"
    "One file, with its records: `tidelog dump 00000000000000000000.log --records`"
)
def dump(
    path: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", exists=True, help="A file, or all in a directory.")
    ],
    records: Annotated[bool, typer.Option("--records", "-r", help="Open the batches.")] = False,
    most_rows: Annotated[
        int, typer.Option("--max", "-n", min=1, metavar="N", help="Rows of a table, at most.")
    ] = 1000,
    as_json: AsJson = False,
) -> None:
    """Look into segment and index files: what is in them, and whether it is whole.

    Reads only; a running node is not disturbed. Exits with 1 if anything is damaged.
    """
    files = find_files(path)
    if not files:
        raise CommandFailed(f"no .log, .index or .timeindex file in {path}")
    documents = [examine(file, with_records=records) for file in files]
    if as_json:
        emit_json(documents)
    elif path.is_dir() and not records:
        _show_directory(path, documents, most_rows=most_rows)
    else:
        for document in documents:
            _show_file(document, most_rows=most_rows)
    damaged = [document for document in documents if document["problems"]]
    if damaged:
        raise CommandFailed(f"damage in {len(damaged)} of {plural(len(documents), 'file')}")


def _show_directory(path: Path, documents: list[Document], *, most_rows: int) -> None:
    """One row per segment, its indexes included."""
    segments = groupby(documents, key=lambda document: Path(document["file"]).with_suffix(""))
    rows = [_segment_row(path, name, list(files)) for name, files in segments]
    made = table("~Directory", "#Segment", "#Batches", "#Records", "#Size", "State")
    people().print(add_rows(made, rows[:most_rows]))
    _mention_rest(len(rows), most_rows)
    for document in documents:
        _show_problems(document)


def _segment_row(path: Path, name: Path, files: list[Document]) -> tuple[object, ...]:
    batches = [batch for document in files for batch in document.get("batches", ())]
    return (
        str(name.parent.relative_to(path)),
        base_offset(name),
        len(batches),
        sum(batch["records"] for batch in batches),
        size_text(sum(document["bytes"] for document in files)),
        "DAMAGED" if any(document["problems"] for document in files) else "ok",
    )


def _show_file(document: Document, *, most_rows: int) -> None:
    people().print(f"{document['file']}  {size_text(document['bytes'])}", style="bold")
    if "entries" in document:
        _show_entries(document["entries"], most_rows=most_rows)
    else:
        _show_batches(document["batches"], most_rows=most_rows)
    _show_problems(document)


def _show_batches(batches: list[Document], *, most_rows: int) -> None:
    made = table("#Position", "Offsets", "#Records", "#Bytes", "Newest", "Producer", "~Notes")
    rows = (
        (
            batch["position"],
            f"{batch['base_offset']}-{batch['last_offset']}",
            batch["records"],
            batch["bytes"],
            time_text(batch["max_timestamp"]),
            _producer(batch),
            _notes(batch),
        )
        for batch in batches
    )
    people().print(add_rows(made, islice(rows, most_rows)))
    _mention_rest(len(batches), most_rows)
    opened = [record for batch in batches for record in batch.get("opened", ())]
    if opened:
        _show_records(opened, most_rows=most_rows)


def _show_records(records: list[Document], *, most_rows: int) -> None:
    made = table("#Offset", "Time", "~Key", "~Value", "~Headers")
    rows = (
        (
            record["offset"],
            time_text(record["timestamp"]),
            _excerpt(record, "key"),
            _excerpt(record, "value"),
            ", ".join(f"{each['name']}={_excerpt(each, 'value')}" for each in record["headers"]),
        )
        for record in records
    )
    people().print(add_rows(made, islice(rows, most_rows)))
    _mention_rest(len(records), most_rows)


def _show_entries(entries: list[Document], *, most_rows: int) -> None:
    is_by_time = bool(entries) and "timestamp" in entries[0]
    made = table("#Offset", "Time" if is_by_time else "#Position")
    rows = (
        (entry["offset"], time_text(entry["timestamp"]) if is_by_time else entry["position"])
        for entry in entries
    )
    people().print(add_rows(made, islice(rows, most_rows)))
    _mention_rest(len(entries), most_rows)


def _show_problems(document: Document) -> None:
    for problem in document["problems"]:
        people().print(f"{document['file']}: {problem}", style="red", soft_wrap=True)


def _mention_rest(count: int, most_rows: int) -> None:
    if count > most_rows:
        people().print(f"and {count - most_rows:,} more: --max {count} shows them", style="dim")


def _producer(batch: Document) -> str:
    if batch["producer_id"] < 0:
        return ""
    return f"{batch['producer_id']}/{batch['producer_epoch']}"


def _notes(batch: Document) -> str:
    notes = [batch["compression"]] if batch["compression"] != "none" else []
    notes += [name for name in ("transactional", "control") if batch[name]]
    return ", ".join(notes if batch["valid_crc"] else [*notes, "BAD CRC"])


def _excerpt(record: Document, name: str) -> str:
    """The beginning of a key or value, control characters made visible."""
    text = record[name] if name in record else record[f"{name}_base64"]
    if text is None:
        return "-"
    visible = text if text.isprintable() else json.dumps(text)[1:-1]
    return visible if len(visible) <= SHOWN_CHARACTERS else visible[: SHOWN_CHARACTERS - 1] + "…"

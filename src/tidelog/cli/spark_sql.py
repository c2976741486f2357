"""`tidelog spark sql`: a query over topics; the result as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import base64
import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import AsJson, Bootstrap
from tidelog.cli.output import add_rows, aside, people, plural, table
from tidelog.cli.spark_options import Conf, Master, spark_session
from tidelog.client.connection import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

app = typer.Typer(rich_markup_mode="markdown")

SHOWN_ROWS = 1000
"""Of a table on the terminal; who wants more wants a file."""


class Format(StrEnum):
    """How the result is given."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


@app.command(
    epilog='Example: `tidelog spark sql "select city, count(*) from orders group by city"`\n\n'
    'With history: `tidelog spark sql "select count(*) from orders" --lake ./lake`'
)
def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="Spark SQL; topics are its tables.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read the query from here."),
    ] = None,
    lake: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Read archived records from here, the rest live, as one."),
    ] = None,
    format: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="table, csv, json or parquet.")
    ] = Format.TABLE,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="PATH", help="Write the result there.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Keys and values as bytes, no fields of JSON values.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Query topics with Spark SQL.

    A topic is a table of the same name (in backquotes if it has a dot or a dash) with the columns
    key, value, topic, partition, offset, timestamp; and if its values are JSON objects, with their
    fields.
    """
    text = _query_text(query, file)
    wanted = Format.JSON if as_json else format
    if wanted is Format.PARQUET and to is None:
        raise typer.BadParameter(
            "Parquet is no text: say where to with --to", param_hint="--format"
        )
    from tidelog.spark.sessions import need_packages

    need_packages()
    from tidelog.cli.spark_topics import TopicTables
    from tidelog.spark.jobs.query import query as ask

    tables = TopicTables(bootstrap, lake=lake, is_raw=raw)
    with spark_session(master, conf) as spark:
        with aside().status("asking"):
            result = ask(spark, text, lambda name: tables.find(spark, name))
        _give(spark, result, wanted, to)


def _query_text(query: str | None, file: Path | None) -> str:
    if (query is None) == (file is None):
        raise typer.BadParameter("give a query, or --file with one")
    text = (file.read_text() if file is not None else query or "").strip().rstrip(";")
    if not text:
        raise typer.BadParameter("the query is empty")
    return text


def _give(spark: SparkSession, result: DataFrame, format: Format, to: Path | None) -> None:
    repeated = sorted({name for name in result.columns if result.columns.count(name) > 1})
    if repeated:
        raise CommandFailed(f"two columns are called {repeated[0]!r}: name one with `as`")
    if format is Format.PARQUET:
        assert to is not None
        result.write.mode("error").parquet(str(to.absolute()))
        aside().print(f"written to {to}")
    elif format is Format.TABLE:
        with _writing(to) as out:
            _show(result, out)
    else:
        write: Callable[[DataFrame, IO[str]], int] = _csv if format is Format.CSV else _json
        with _writing(to) as out:
            count = write(result, out)
        if to is not None:
            aside().print(f"{plural(count, 'row')} written to {to}")


@contextmanager
def _writing(to: Path | None) -> Iterator[IO[str]]:
    if to is None:
        yield sys.stdout
    else:
        with to.open("w", newline="") as out:
            yield out


def _show(result: DataFrame, out: IO[str]) -> None:
    with aside().status("computing"):
        rows = result.take(SHOWN_ROWS + 1)
    numeric = ("int", "bigint", "smallint", "tinyint", "double", "float", "decimal")
    names = [f"#{name}" if kind.startswith(numeric) else f"~{name}" for name, kind in result.dtypes]
    made = add_rows(table(*names), ([_cell(each) for each in row] for row in rows[:SHOWN_ROWS]))
    console = people()
    console.file = out
    console.print(made)
    if len(rows) > SHOWN_ROWS:
        aside().print(
            f"only the first {SHOWN_ROWS:,} rows are shown: --format csv --to FILE has them all"
        )


def _csv(result: DataFrame, out: IO[str]) -> int:
    writer = csv.writer(out)
    writer.writerow(result.columns)
    count = 0
    for row in result.toLocalIterator():
        writer.writerow(["" if each is None else _text(each) for each in row])
        count += 1
    return count


def _json(result: DataFrame, out: IO[str]) -> int:
    """One array, a row a line; written as the rows come, so that it may be longer than memory."""
    rows = result.toLocalIterator()
    count = 0
    out.write("[")
    for row in rows:
        values = {name: plain_value(each) for name, each in zip(result.columns, row, strict=True)}
        out.write(f"{',' if count else ''}\n  {json.dumps(values, ensure_ascii=False)}")
        count += 1
    out.write("\n]\n" if count else "]\n")
    return count


def _cell(value: Any) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return _moment(value).replace("T", " ").removesuffix("Z")
    if isinstance(value, dict | list | tuple):
        return json.dumps(plain_value(value), ensure_ascii=False)
    return str(value)


def plain_value(value: Any) -> Any:
    """What JSON can hold; bytes as text where they are, else in base 64."""
    if isinstance(value, tuple) and hasattr(value, "asDict"):
        return {name: plain_value(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {_text(name): plain_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return value.isoformat()
    return _text(value) if isinstance(value, Decimal | bytes | bytearray) else value


def _moment(value: datetime) -> str:
    """Spark gives timestamps in this machine's zone; results are the same everywhere."""
    exact = value.astimezone(UTC).replace(tzinfo=None)
    return exact.isoformat(timespec="milliseconds" if exact.microsecond else "seconds") + "Z"

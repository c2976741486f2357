"""Names in a query: Spark quotes them, topics don't."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row

from tidelog.cli.spark_sql import plain_value
from tidelog.spark.jobs.query import parts_of


@pytest.mark.parametrize(
    ("quoted", "parts"),
    [
        ("`orders`", ["orders"]),
        ("`orders`.`v2`", ["orders", "v2"]),
        ("`orders.v2`", ["orders.v2"]),
        ("`a``b`", ["a`b"]),
        ("orders", ["orders"]),
        ("`spark_catalog`.`default`.`a.b-c`", ["spark_catalog", "default", "a.b-c"]),
    ],
)
def test_a_quoted_name_is_taken_apart(quoted: str, parts: list[str]) -> None:
    assert parts_of(quoted) == parts


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (Row(a=1, b=Row(c=b"text")), {"a": 1, "b": {"c": "text"}}),
        (b"\xff\xfe", "//4="),
        ([Decimal("1.50"), None], ["1.50", None]),
        ({"k": date(2026, 1, 1)}, {"k": "2026-01-01"}),
        (datetime(2026, 1, 1, 10, tzinfo=UTC), "2026-01-01T10:00:00Z"),
        (datetime(2026, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC), "2026-01-01T10:00:00.500Z"),
        (2.5, 2.5),
    ],
    ids=["row", "bytes", "list", "map", "second", "millisecond", "number"],
)
def test_a_result_is_given_as_json_holds_it(value: Any, given: Any) -> None:
    assert plain_value(value) == given

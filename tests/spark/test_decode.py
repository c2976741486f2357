"""`decode` in Spark: the columns it adds, and what becomes of malformed rows."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

import tidelog.spark
from tidelog.spark.errors import PipelineError
from tidelog.spark.plain_errors import speaking_plainly

pytestmark = pytest.mark.xdist_group("spark")

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": "string", "default": "somewhere"},
    ],
}


def framed(number: int, schema: Any, row: Any) -> bytes:
    out = io.BytesIO(b"\x00" + number.to_bytes(4, "big"))
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


def frame(spark: SparkSession, *values: bytes | None) -> Any:
    return spark.createDataFrame([(each,) for each in values], "value binary")


def test_json_becomes_columns_and_bad_rows_say_why(spark: SparkSession) -> None:
    values = (b'{"a": 1, "b": "x"}', b"nope", None, b'{"a": "x"}', b"", b'{"b": "y"}', b"[1]")
    found = tidelog.spark.decode(frame(spark, *values), schema="a long, b string")
    rows = [(row["data"] and tuple(row["data"]), row["error"]) for row in found.collect()]
    said = "not JSON of this schema: "
    assert rows == [
        ((1, "x"), None),
        (None, said + "nope"),
        (None, None),
        (None, said + '{"a": "x"}'),
        (None, said),
        ((None, "y"), None),
        (None, said + "[1]"),
    ]


def test_framed_json_is_read_behind_its_frame(spark: SparkSession) -> None:
    rows = frame(spark, b'\x00\x00\x00\x00\x07{"a": 1}')
    found = tidelog.spark.decode(rows, schema="a long", framed=True, into="order")
    assert found.select("order.a").collect()[0]["a"] == 1


def test_avro_is_read_with_the_schema_each_record_names(spark: SparkSession) -> None:
    rows = frame(
        spark,
        framed(1, OLD, {"id": 5}),
        framed(2, NEW, {"id": 6, "city": "Oslo"}),
        framed(3, OLD, {"id": 7}),
        b"unframed",
    )
    found = tidelog.spark.decode(rows, "avro", registry={1: OLD, 2: NEW}).collect()
    assert [row["data"] and tuple(row["data"]) for row in found] == [
        (5, "somewhere"),
        (6, "Oslo"),
        None,
        None,
    ]
    assert found[2]["error"] == "the registry has no schema 3"
    assert "no registry framing" in found[3]["error"]


def test_protobuf_needs_no_generated_module_on_the_executors(spark: SparkSession) -> None:
    from google.protobuf.wrappers_pb2 import StringValue

    name = b"\x0a\x04Oslo"
    rows = frame(spark, name, b"\x00\x00\x00\x00\x01\x00" + name)
    plain = tidelog.spark.decode(rows, "protobuf", message=StringValue).collect()
    assert plain[0]["data"]["value"] == "Oslo"
    behind = tidelog.spark.decode(rows, "protobuf", message=StringValue, framed=True).collect()
    assert behind[1]["data"]["value"] == "Oslo"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"format": "json", "schema": "a long"}, "FAILFAST"),
        ({"format": "avro", "schema": NEW}, "a record can't be decoded"),
    ],
    ids=["json", "avro"],
)
def test_failing_fast_ends_the_query_with_one_line(
    spark: SparkSession, arguments: dict[str, Any], said: str
) -> None:
    found = tidelog.spark.decode(frame(spark, b"nope"), mode="failfast", **arguments)
    with pytest.raises(PipelineError) as caught, speaking_plainly():
        found.collect()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"format": "xml"}, "known are json, avro, protobuf"),
        ({"schema": "a long", "mode": "lenient"}, "known are permissive, failfast"),
        ({"format": "json"}, "JSON needs a schema"),
        ({"format": "avro"}, "Avro needs a schema"),
        ({"format": "protobuf"}, "compiled message class"),
    ],
    ids=["format", "mode", "json", "avro", "protobuf"],
)
def test_a_wrong_argument_is_a_sentence(
    spark: SparkSession, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(PipelineError, match=said):
        tidelog.spark.decode(frame(spark, b"x"), **arguments)

"""Avro and Protobuf bytes to typed rows: types, values, and what is malformed."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from pyspark.sql import types as T

from tidelog.spark.decoding import avro, protobuf
from tidelog.spark.decoding.columns import decoded_batch
from tidelog.spark.errors import PipelineError

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": ["null", "string"], "default": None},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "n", "type": ["int", "long"]},
                        {"name": "x", "type": ["string", "int"]},
                    ],
                },
            },
        },
        {"name": "again", "type": ["null", "Line"], "default": None},
    ],
}
ROW: dict[str, Any] = {
    "id": 7,
    "city": "Oslo",
    "price": Decimal("12.50"),
    "at": datetime(2026, 1, 1, 10, tzinfo=UTC),
    "day": date(2026, 1, 1),
    "tags": {"a": 1, "b": None},
    "kind": "B",
    "lines": [{"n": 1, "x": "text"}, {"n": 2**40, "x": 5}],
    "again": {"n": 3, "x": "y"},
}


def avro_bytes(schema: Any, row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


def decoded(
    values: list[bytes | None], shape: T.StructType, read: Any, *, may_fail: bool = False
) -> Any:
    return decoded_batch(
        pa.array(values, type=pa.binary()), shape, read, may_fail=may_fail
    ).to_pylist()


def test_an_avro_record_has_typed_fields() -> None:
    assert avro.spark_type(ORDER).simpleString() == (
        "struct<id:bigint,city:string,price:decimal(9,2),at:timestamp,day:date,"
        "tags:map<string,int>,kind:string,lines:array<struct<n:bigint,x:string>>,"
        "again:struct<n:bigint,x:string>>"
    )


def test_avro_values_arrive_as_they_were_written() -> None:
    read = avro.reader(avro.schema_text(ORDER), None)
    shape = avro.spark_type(ORDER)
    row, nothing, cut_off, extra = decoded(
        [avro_bytes(ORDER, ROW), None, avro_bytes(ORDER, ROW)[:5], avro_bytes(ORDER, ROW) + b"xy"],
        shape,
        read,
    )
    assert row["error"] is None
    assert row["data"] == {
        **ROW,
        "tags": [("a", 1), ("b", None)],
        "lines": [{"n": 1, "x": "text"}, {"n": 2**40, "x": "5"}],
    }
    assert nothing == {"data": None, "error": None}
    assert cut_off == {"data": None, "error": "the record is cut off"}
    assert extra == {"data": None, "error": "2 bytes are left over after the record"}


def test_an_old_avro_record_is_read_with_the_new_schema() -> None:
    old = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]}
    new = {
        "type": "record",
        "name": "A",
        "fields": [
            {"name": "a", "type": "long"},
            {"name": "b", "type": "string", "default": "none"},
        ],
    }
    read = avro.reader(avro.schema_text(old), avro.schema_text(new))
    assert read(avro_bytes(old, {"a": 3})) == {"a": 3, "b": "none"}


def test_failing_fast_names_the_reason() -> None:
    read = avro.reader(avro.schema_text(ORDER), None)
    with pytest.raises(ValueError, match="can't be decoded: the record is cut off"):
        decoded([b"\x02"], avro.spark_type(ORDER), read, may_fail=True)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('"string"', "must be a record"),
        ("{", "not JSON"),
        ({"type": "record", "name": "A", "fields": [{"name": "a", "type": "B"}]}, "'B'"),
        (
            {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]},
            "contains itself",
        ),
    ],
    ids=["no record", "no JSON", "undefined", "recursive"],
)
def test_an_avro_schema_that_can_not_be_a_table_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        avro.spark_type(schema)


def shop_file() -> descriptor_pb2.FileDescriptorProto:
    """What `protoc` would make of a small shop.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="UNKNOWN", number=0)
    kind.value.add(name="BOOK", number=1)
    line = file.message_type.add(name="Line")
    line.field.add(name="n", number=1, type=Field.TYPE_UINT64, label=Field.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    add = order.field.add
    add(name="id", number=1, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL)
    add(name="city", number=2, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    add(
        name="kind",
        number=3,
        type=Field.TYPE_ENUM,
        type_name=".shop.Kind",
        label=Field.LABEL_OPTIONAL,
    )
    add(
        name="lines",
        number=4,
        type=Field.TYPE_MESSAGE,
        type_name=".shop.Line",
        label=Field.LABEL_REPEATED,
    )
    add(
        name="at",
        number=5,
        type=Field.TYPE_MESSAGE,
        label=Field.LABEL_OPTIONAL,
        type_name=".google.protobuf.Timestamp",
    )
    note = add(name="note", number=6, type=Field.TYPE_BYTES, label=Field.LABEL_OPTIONAL)
    note.proto3_optional = True
    note.oneof_index = 0
    order.oneof_decl.add(name="_note")
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=Field.TYPE_INT32, label=Field.LABEL_OPTIONAL)
    add(
        name="tags",
        number=7,
        type=Field.TYPE_MESSAGE,
        label=Field.LABEL_REPEATED,
        type_name=".shop.Order.TagsEntry",
    )
    return file


def order_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    stamp = descriptor_pb2.FileDescriptorProto()
    stamp.ParseFromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(stamp)
    pool.Add(shop_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_a_protobuf_message_has_typed_fields() -> None:
    name, files = protobuf.message_and_set(order_class(), None)
    assert protobuf.spark_type(name, files).simpleString() == (
        "struct<id:bigint,city:string,kind:string,lines:array<struct<n:decimal(20,0)>>,"
        "at:timestamp,note:binary,tags:map<string,int>>"
    )


def test_protobuf_values_arrive_as_they_were_written() -> None:
    made = order_class()
    name, files = protobuf.message_and_set(made, None)
    message = made(id=7, city="Oslo", kind=1, lines=[{"n": 2**63 + 1}], tags={"a": 1})
    message.at.seconds = 1_767_261_600
    row, broken, empty = decoded(
        [message.SerializeToString(), b"\xff\xff", b""],
        protobuf.spark_type(name, files),
        protobuf.reader(name, files),
    )
    assert row["data"] == {
        "id": 7,
        "city": "Oslo",
        "kind": "BOOK",
        "lines": [{"n": Decimal(2**63 + 1)}],
        "at": datetime(2026, 1, 1, 10, tzinfo=UTC),
        "note": None,
        "tags": [("a", 1)],
    }
    assert broken["data"] is None
    assert "not a shop.Order" in broken["error"]
    assert empty["data"]["id"] == 0
    assert empty["data"]["kind"] == "UNKNOWN"


def test_a_descriptor_set_and_a_name_are_as_good_as_a_class() -> None:
    name, files = protobuf.message_and_set(order_class(), None)
    assert protobuf.message_and_set("shop.Order", files) == (name, files)
    with pytest.raises(PipelineError, match=r"no message shop\.Nothing"):
        protobuf.spark_type("shop.Nothing", files)
    with pytest.raises(PipelineError, match="descriptor set"):
        protobuf.spark_type("shop.Order", b"nonsense")
    with pytest.raises(PipelineError, match="give `descriptors`"):
        protobuf.message_and_set("shop.Order", None)

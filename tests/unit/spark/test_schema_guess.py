"""A sample of values tells what a topic holds, broken records in it or not."""

from __future__ import annotations

import json

import pytest

from tidelog.spark.schema_guess import guess, merged, shape_of, type_text


def values(*documents: object) -> list[bytes]:
    return [json.dumps(each).encode() for each in documents]


def test_json_objects_have_a_type_for_each_field() -> None:
    found = guess(values({"order": 1, "city": "Oslo", "at": "2026-01-01T10:00:00Z", "paid": True}))
    assert found.format == "json"
    assert found.ddl == "order bigint, city string, at timestamp, paid boolean"


def test_fields_of_all_samples_are_merged() -> None:
    found = guess(values({"a": 1}, {"a": 2.5, "b": None}, {"b": ["x"]}))
    assert dict(found.fields) == {"a": "double", "b": "array<string>"}


def test_types_that_do_not_fit_each_other_are_text() -> None:
    assert guess(values({"a": 1}, {"a": "x"})).ddl == "a string"
    assert guess(values({"at": "2026-01-01 10:00"}, {"at": "tomorrow"})).ddl == "at string"


def test_a_rare_mistake_does_not_change_a_fields_type() -> None:
    found = guess(values(*({"cents": number} for number in range(100)), {"cents": "a lot"}))
    assert found.ddl == "cents bigint"


def test_whole_and_broken_numbers_make_a_double_however_rare() -> None:
    assert guess(values(*({"a": 1} for _ in range(100)), {"a": 2.5})).ddl == "a double"


def test_a_struct_within_keeps_its_fields() -> None:
    assert guess(values({"who": {"id": 1, "my name": "x"}})).ddl == (
        "who struct<id:bigint,`my name`:string>"
    )


def test_some_broken_records_do_not_hide_the_schema() -> None:
    found = guess([*values({"a": 1}, {"a": 2}, {"a": 3}), b"broken", None])
    assert (found.format, found.matching, found.sampled) == ("json", 3, 4)


@pytest.mark.parametrize(
    ("value", "format"),
    [
        (b"plain words", "text"),
        (b"[1, 2]", "text"),
        (b"\xff\xfe\x00", "binary"),
        (b"\x00\x00\x00\x00\x07payload", "framed"),
        (b"[" * 100_000, "text"),
    ],
    ids=["words", "no object", "bytes", "framed", "too deep"],
)
def test_what_is_no_json_object_is_named(value: bytes, format: str) -> None:
    assert guess([value]).format == format


def test_the_registrys_ids_are_told() -> None:
    frames = [b"\x00\x00\x00\x00" + bytes([number]) + b"payload" for number in (9, 7, 9)]
    assert guess(frames).schema_ids == (7, 9)


def test_an_empty_topic_is_empty() -> None:
    assert guess([]).format == "empty"
    assert guess([None, None]).format == "empty"


def test_a_topic_of_many_kinds_is_mixed() -> None:
    assert guess([b"words", b'{"a":1}', b"\xff\xfe"]).format == "mixed"


def test_merging_does_not_depend_on_the_order() -> None:
    shapes = [shape_of(each) for each in (None, 1, 2.5, "x", "2026-01-01 10:00", [1], {"a": 1})]
    for one in shapes:
        for other in shapes:
            assert type_text(merged(one, other)) == type_text(merged(other, one))


def test_a_number_beyond_64_bits_is_a_double() -> None:
    assert shape_of(2**63 - 1) == "bigint"
    assert shape_of(2**63) == "double"

"""The schema registry's framing comes off, and what is not framed is said to be so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.spark.decoding.framing import FramingError, unframe, without_message_path
from tidelog.spark.decoding.registry import avro_schemas, descriptor_sets
from tidelog.spark.errors import PipelineError


def test_the_id_and_the_payload_are_taken_apart() -> None:
    assert unframe(b"\x00\x00\x00\x01\x02payload") == (258, b"payload")


@pytest.mark.parametrize("value", [b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01x"])
def test_what_is_not_framed_is_said_to_be_so(value: bytes) -> None:
    with pytest.raises(FramingError, match="no registry framing"):
        unframe(value)


@pytest.mark.parametrize(
    ("payload", "path"),
    [(b"\x00rest", [0]), (b"\x02\x02rest", [1]), (b"\x04\x00\x80\x01rest", [0, 64])],
    ids=["short form", "one", "nested"],
)
def test_the_message_path_is_taken_off(payload: bytes, path: list[int]) -> None:
    assert without_message_path(payload) == (path, b"rest")


@pytest.mark.parametrize("payload", [b"", b"\x02", b"\x80", b"\xff" * 11, b"\xfe\xff\xff\x0f"])
def test_a_message_path_that_is_none_is_refused(payload: bytes) -> None:
    with pytest.raises(FramingError):
        without_message_path(payload)


def test_a_directory_is_a_registry(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text('"string"')
    (tmp_path / "8.json").write_text('{"type": "int"}')
    (tmp_path / "9.desc").write_bytes(b"set")
    (tmp_path / "notes.json").write_text("not a schema")
    assert avro_schemas(tmp_path) == {7: "string", 8: {"type": "int"}}
    assert descriptor_sets(tmp_path) == {9: b"set"}


def test_an_empty_or_missing_directory_is_said(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="named by id"):
        avro_schemas(tmp_path)
    with pytest.raises(PipelineError, match="no registry directory"):
        avro_schemas(tmp_path / "nothing")


def test_a_schema_that_is_not_json_is_named() -> None:
    with pytest.raises(PipelineError, match="schema 3"):
        avro_schemas({3: "{"})

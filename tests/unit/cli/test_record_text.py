"""Records as text: by a template, or as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tidelog.cli.record_text import json_line, template
from tidelog.client.message import Message

RECORD = Message("orders", 2, 41, b"k", b"v\xff", [("a", b"1"), ("b", None)], 1_700_000_000_123)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("{value}\n", b"v\xff\n"),
        (r"{partition}:{offset}\t{key}={value}\n", b"2:41\tk=v\xff\n"),
        ("{headers} {timestamp} {topic}", b"a=1,b= 1700000000123 orders"),
        (r"\\n {} {key}", rb"\n {} k"),
    ],
)
def test_a_template_is_filled_with_the_bytes_as_they_are(layout: str, expected: bytes) -> None:
    assert template(layout)(RECORD) == expected


def test_a_missing_key_is_empty_in_a_template() -> None:
    assert template("[{key}]")(replace(RECORD, key=None)) == b"[]"


def test_an_unknown_field_is_refused_with_those_known() -> None:
    with pytest.raises(ValueError, match="known are topic, partition, offset"):
        template("{nonsense}")


def test_json_marks_bytes_that_are_no_text() -> None:
    line = json_line(RECORD)
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 2,
        "offset": 41,
        "timestamp": 1_700_000_000_123,
        "key": "k",
        "value_base64": "dv8=",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }

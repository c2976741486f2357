"""What `tidelog produce` makes of its input."""

from __future__ import annotations

import io

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.produce import Draft, from_lines, generated


def test_each_line_is_a_record() -> None:
    lines = io.BytesIO(b"one\n\nthree \r\nlast without an end")
    values = [draft.value for draft in from_lines(lines, None)]
    assert values == [b"one", b"", b"three \r", b"last without an end"]


def test_the_first_separator_ends_the_key() -> None:
    lines = io.BytesIO(b"k1:v:1\n:v2\nk3:\n")
    drafts = list(from_lines(lines, ":"))
    assert drafts == [Draft(b"k1", b"v:1"), Draft(b"", b"v2"), Draft(b"k3", b"")]


def test_a_line_without_the_separator_is_named() -> None:
    with pytest.raises(CommandFailed, match="line 2 has no '='"):
        list(from_lines(io.BytesIO(b"a=1\nb\n"), "="))


def test_test_data_is_as_many_and_as_large_as_asked_and_always_the_same() -> None:
    drafts = list(generated(5000, 100))
    assert len(drafts) == 5000
    assert {len(draft.value) for draft in drafts} == {100}
    assert drafts == list(generated(5000, 100))

"""What a pipeline's own Python raises is one line that says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.spark.errors import PipelineError
from tidelog.spark.pipelines.users_code import UsersCode


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = nope\n", "topics.py, line 2: NameError: name 'nope' is not defined"),
        ("x = 1\n\ndef f(:\n", "topics.py, line 3: invalid syntax"),
        (
            "from tidelog.spark.errors import PipelineError\nraise PipelineError('give a schema')",
            "topics.py, line 2: give a schema",
        ),
        ("def f():\n    raise KeyError('a')\n\nf()\n", "topics.py, line 2: KeyError: 'a'"),
    ],
    ids=["name", "syntax", "ours", "deep"],
)
def test_the_line_and_the_reason_are_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "topics.py"
    path.write_text(text)
    with pytest.raises(PipelineError) as caught, UsersCode(tmp_path):
        exec(compile(text, str(path), "exec"), {})
    assert str(caught.value) == said


def test_an_interruption_is_let_through(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), UsersCode(tmp_path):
        raise KeyboardInterrupt

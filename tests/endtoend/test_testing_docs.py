"""Every example of `docs/testing.md`, as a project of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.doc_examples import examples

import tidelog

pytest_plugins = ["pytester"]


def test_the_examples_of_the_page_pass(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(tidelog.__file__).parents[1]))
    found = examples("testing.md")
    for number, code in enumerate(found):
        (pytester.path / f"test_example_{number}.py").write_text(code)
    result = pytester.runpytest_subprocess(
        "-p", "tidelog.testing.plugin", "-W", "error::pytest.PytestUnraisableExceptionWarning"
    )
    outcomes = result.parseoutcomes()
    assert set(outcomes) == {"passed"}
    assert outcomes["passed"] >= len(found)

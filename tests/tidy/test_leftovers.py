"""Nothing half done, nothing of one person's machine, nothing swallowed, nothing left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.house import ROOT, Module, sources, texts, written_tests

CATCHES_EVERYTHING = "src/tidelog/runtime/service.py"
"""The one file that may: the last line of defence, which logs and stops."""

# Written in two parts so that this file does not find itself.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
ONE_MACHINE = re.compile(r"(?<![\w.$}~])/(?:home|Users|root|work)/[\w.]")
LEFT_OUT = ("skip", "skipif", "xfail", "importorskip")


def catches_everything(module: Module) -> Iterator[str]:
    """Handlers of every exception, but for those that clean up and raise it again."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        names = [ast.unparse(each) if each else "everything" for each in caught]
        is_raised_again = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        if not is_raised_again and set(names) & {"everything", "Exception", "BaseException"}:
            yield module.at(node)


def left_out(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Attribute) or node.attr not in LEFT_OUT:
            continue
        if ast.unparse(node.value) in ("pytest", "pytest.mark", "unittest"):
            yield f"{module.at(node)} {ast.unparse(node)}"


def test_only_one_file_catches_everything() -> None:
    found = [place for module in sources() for place in catches_everything(module)]
    assert [place for place in found if not place.startswith(CATCHES_EVERYTHING)] == []


def test_no_test_is_left_out() -> None:
    assert [place for module in written_tests() for place in left_out(module)] == []


def test_nothing_is_left_unfinished() -> None:
    assert [name for name, text in texts() if UNFINISHED.search(text)] == []


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    assert [name for name, text in texts() if ONE_MACHINE.search(text)] == []


def test_the_readme_names_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme


def test_the_ci_script_runs_the_test_suite_and_nothing_else() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["exec make test"]

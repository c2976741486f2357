"""A function fits on a screen, a file in a head."""

from __future__ import annotations

import ast

from tests.tidy.house import sources, written_tests

LONGEST_FUNCTION = 60
LONGEST_FILE = 600
LONGEST_PACKAGE_DOCSTRING = 25


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = [
        f"{module.at(node)} {node.name}: {size} lines"
        for module in sources()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (size := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION
    ]
    assert too_long == []


def test_no_file_is_longer_than_600_lines() -> None:
    too_long = [
        f"{module.name}: {size} lines"
        for module in (*sources(), *written_tests())
        if (size := module.text.count("\n")) > LONGEST_FILE
    ]
    assert too_long == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        module.name
        for module in (*sources(), *written_tests())
        if not ast.get_docstring(module.tree)
    ]
    assert silent == []


def test_a_package_introduces_itself_in_25_lines_at_most() -> None:
    too_long = [
        module.name
        for module in sources()
        if module.path.name == "__init__.py"
        if len((ast.get_docstring(module.tree) or "").splitlines()) > LONGEST_PACKAGE_DOCSTRING
    ]
    assert too_long == []

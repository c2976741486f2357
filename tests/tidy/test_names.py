"""A name says what the thing does; these words only say that it does something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from tests.tidy.house import Module, sources, written_tests

MUMBLING = {
    *("manager", "managers", "helper", "helpers", "util", "utils", "utility", "utilities"),
    *("common", "misc", "base", "impl", "processor", "processors", "v2"),
}
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")


def words(name: str) -> list[str]:
    """The words of a CamelCase or snake_case name, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def mumbled(module: Module) -> Iterator[str]:
    """The module and its classes, if their names mumble."""
    if MUMBLING.intersection(words(module.path.stem), module.path.parent.name.split("_")):
        yield module.name
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and MUMBLING.intersection(words(node.name)):
            yield f"{module.at(node)} {node.name}"


def test_no_module_or_class_has_a_mumbling_name() -> None:
    found = [name for module in (*sources(), *written_tests()) for name in mumbled(module)]
    assert found == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TopicManager", ["topic", "manager"]),
        ("HTTPBase", ["http", "base"]),
        ("record_batch_v2", ["record", "batch", "v2"]),
        ("Database", ["database"]),
    ],
)
def test_a_name_is_split_into_its_words(name: str, expected: list[str]) -> None:
    assert words(name) == expected


def test_tests_are_sentences() -> None:
    too_short = [
        f"{module.at(node)} {node.name}"
        for module in written_tests()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and len(node.name.split("_")) < 4
    ]
    assert too_short == []

"""The machine rooms are deterministic: the same events give the same effects, always."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.tidy.house import machines
from tests.tidy.set_iteration import set_iterations

DOORS = frozenset(("time", "asyncio", "socket", "threading", "selectors", "subprocess"))
"""Modules through which the world could leak in. `random` has a rule of its own."""


def imported(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """Every import statement with the top of each module's name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node, (node.module or "").partition(".")[0]


def ambient_luck(tree: ast.Module) -> Iterator[ast.AST]:
    """Uses of the module `random` other than its type `Random`, made from a given seed."""
    has_module = any(
        isinstance(node, ast.Import) and node.names[0].name == "random" for node in ast.walk(tree)
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            if [alias.name for alias in node.names] != ["Random"]:
                yield node
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "random":
            if has_module and node.attr != "Random":
                yield node
        elif isinstance(node, ast.Call) and _is_random_type(node.func) and not node.args:
            yield node


def _is_random_type(node: ast.expr) -> bool:
    return ast.unparse(node) in ("random.Random", "Random")


def test_no_machine_sees_a_clock_a_thread_or_a_socket() -> None:
    found = [
        f"{module.at(node)} imports {name}"
        for module in machines()
        for node, name in imported(module.tree)
        if name in DOORS
    ]
    assert found == []


def test_luck_comes_only_from_an_injected_generator() -> None:
    found = [
        f"{module.at(node)} {ast.unparse(node)}"
        for module in machines()
        for node in ambient_luck(module.tree)
    ]
    assert found == []


def test_no_machine_depends_on_the_order_of_a_set() -> None:
    found = [
        f"{module.at(node)} iterates a set: {ast.unparse(node)}"
        for module in machines()
        for node in set_iterations(module.tree)
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "for x in {1, 2}: print(x)",
        "for x in set(rows): print(x)",
        "for x in set(a) | b: print(x)",
        "names = [x for x in frozenset(rows)]",
        "names = list({x for x in rows})",
        "def f(rows: set[int]):\n    for x in rows: print(x)",
        "def f():\n    rows = set()\n    for x in rows: print(x)",
        "class A:\n    rows: set[int]\n    def f(self):\n        for x in self.rows: print(x)",
        "class A:\n    def __init__(self):\n        self.rows: set[int] = set()\n"
        "    def f(self):\n        return tuple(self.rows)",
    ],
)
def test_the_rule_sees_a_set_being_iterated(code: str) -> None:
    assert list(set_iterations(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "for x in sorted({1, 2}): print(x)",
        "for x in [1, 2]: print(x)",
        "found = any(x > 1 for x in set(rows))",
        "others = {x + 1 for x in set(rows)}",
        "def f(rows: dict[int, int]):\n    for x in rows: print(x)",
        "def f(rows: set[int]):\n    return 3 in rows and len(rows)",
    ],
)
def test_the_rule_lets_order_free_uses_of_a_set_pass(code: str) -> None:
    assert not list(set_iterations(ast.parse(code)))


@pytest.mark.parametrize("code", ["random.random()", "random.Random()", "random.choice(rows)"])
def test_the_rule_sees_ambient_luck(code: str) -> None:
    assert list(ambient_luck(ast.parse(f"import random\n{code}")))


def test_the_rule_lets_an_injected_generator_pass() -> None:
    code = "import random\ndef f(luck: random.Random): return luck.random()\nf(random.Random(7))"
    assert not list(ambient_luck(ast.parse(code)))

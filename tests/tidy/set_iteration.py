"""Finds where code goes through a set one by one, so that the hash seed would choose the order.

By syntax alone: an expression is known to be a set if it is written as one, or is a name that its
function, or an attribute that its class, declares or assigns as one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

ORDER_FREE = frozenset(("sorted", "set", "frozenset", "any", "all", "sum", "min", "max", "len"))
"""Calls whose result does not depend on the order of what they are given."""

ORDER_KEEPING = frozenset(("list", "tuple", "iter", "enumerate", "next", "dict", "zip", "map"))

_SET_TYPES = ("set", "frozenset", "AbstractSet", "MutableSet", "Set")
_SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)


def set_iterations(tree: ast.Module) -> Iterator[ast.expr]:
    """Each set that is gone through in an order that matters."""
    yield from _in_scope(tree, frozenset())


def _in_scope(scope: ast.AST, outer: frozenset[str]) -> Iterator[ast.expr]:
    """The iterations of one function, class or module; `outer` are the names known to be sets."""
    known = outer | frozenset(_declared_sets(scope))
    for node in _own_nodes(scope):
        for iterated in _iterated(node):
            if _is_set(iterated, known):
                yield iterated
    for inner in _inner_scopes(scope):
        yield from _in_scope(inner, known)


def _iterated(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.For | ast.AsyncFor):
        yield node.iter
    elif isinstance(node, ast.ListComp | ast.DictComp):
        yield from (part.iter for part in node.generators)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        for argument in node.args:
            if node.func.id in ORDER_KEEPING:
                yield argument
            if isinstance(argument, ast.GeneratorExp) and node.func.id not in ORDER_FREE:
                yield from (part.iter for part in argument.generators)
    elif isinstance(node, ast.Call):
        for argument in node.args:
            if isinstance(argument, ast.GeneratorExp):
                yield from (part.iter for part in argument.generators)


def _is_set(node: ast.expr, known: frozenset[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    if isinstance(node, ast.BinOp) and isinstance(node.op, _SET_OPERATORS):
        return _is_set(node.left, known) or _is_set(node.right, known)
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in known


def _declared_sets(scope: ast.AST) -> Iterator[str]:
    """Names of this scope that are sets; in a class also what its methods do to `self`."""
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        yield from (each.arg for each in arguments if _is_set_type(each.annotation))
    if isinstance(scope, ast.ClassDef):
        for node in ast.walk(scope):
            yield from (name for name in _assigned_sets(node) if name.startswith("self."))
        for node in scope.body:
            yield from (f"self.{name}" for name in _assigned_sets(node))
        return
    for node in _own_nodes(scope):
        yield from (name for name in _assigned_sets(node) if not name.startswith("self."))


def _assigned_sets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.AnnAssign) and _is_set_type(node.annotation):
        yield ast.unparse(node.target)
    elif isinstance(node, ast.Assign) and _is_set(node.value, frozenset()):
        yield from (ast.unparse(target) for target in node.targets)


def _is_set_type(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return annotation is not None and ast.unparse(annotation) in _SET_TYPES


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """All nodes of the scope that belong to no function or class inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _inner_scopes(scope: ast.AST) -> Iterator[ast.AST]:
    for node in _own_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node

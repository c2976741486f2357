"""What the documentation points at is there: files, functions, other pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.house import ROOT, Module, sources, written_tests

PAGES = (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")))
CODE = re.compile(r"`([\w/]+\.py)(?::([\w.]+))?`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def has_name(module: Module, name: str) -> bool:
    last = re.escape(name.rpartition(".")[2])
    return re.search(rf"\b(?:def|class) {last}\b|^\s*{last}\b", module.text, re.M) is not None


def lost_code(page: Path) -> Iterator[str]:
    modules = (*sources(), *written_tests())
    for path, name in CODE.findall(page.read_text()):
        meant = [module for module in modules if f"/{module.name}".endswith(f"/{path}")]
        if not meant:
            yield f"{page.name}: there is no {path}"
        elif name and not any(has_name(module, name) for module in meant):
            yield f"{page.name}: there is no {name} in {path}"


def test_the_code_that_pages_name_is_there() -> None:
    assert [lost for page in PAGES for lost in lost_code(page)] == []


def test_the_pages_that_pages_link_to_are_there() -> None:
    links = [(page, target) for page in PAGES for target in LINK.findall(page.read_text())]
    assert [
        f"{page.name}: {target}" for page, target in links if not (page.parent / target).exists()
    ] == []
    assert links

"""The compiled wheel is not built here, but what is to be compiled has to be there."""

from __future__ import annotations

import tomllib

from tests.tidy.house import ROOT, sources


def compiled_patterns() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    patterns: list[str] = hook["modules"]
    return patterns


def test_each_module_that_is_to_be_compiled_is_there() -> None:
    lost = [name for name in compiled_patterns() if not list((ROOT / "src").glob(name))]
    assert lost == []


def test_a_class_with_interpreted_subclasses_says_so_only_where_it_is_compiled() -> None:
    """Else the word is left over from a module that is compiled no more."""
    compiled = {path for name in compiled_patterns() for path in (ROOT / "src").glob(name)}
    saying = {module.path for module in sources() if "@mypyc_attr" in module.text}
    assert saying
    assert saying <= compiled

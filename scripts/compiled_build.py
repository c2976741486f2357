"""The build hook of the compiled wheel: some modules of `tidelog` as extension modules, by mypyc.

Off unless asked for (`HATCH_BUILD_HOOK_ENABLE_CUSTOM=1`, as `make wheel-compiled` does); which
modules, and which mypyc, `pyproject.toml` says. The sources are compiled in a copy, so the clone
stays as it was, and the wheel has them too: tracebacks show their lines. An editable install is
never compiled.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OPTIMIZATION = os.environ.get("TIDELOG_COMPILED_OPTIMIZATION", "3")
"""The C compiler's -O level: 0 is for trying things out, four times as fast to build."""


class CompiledBuild(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the extension modules to a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._workshop = Path(tempfile.mkdtemp(prefix="tidelog-compiled-"))
        source = self._workshop / "src"
        shutil.copytree(Path(self.root) / "src", source)
        modules = sorted(
            str(path.relative_to(source))
            for pattern in self.config["modules"]
            for path in _matches(source, pattern)
        )
        _compile(source, modules)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for library in source.rglob("*.so"):
            build_data["force_include"][str(library)] = str(library.relative_to(source))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self._workshop)


def _matches(source: Path, pattern: str) -> list[Path]:
    found = list(source.glob(pattern))
    if not found:
        raise FileNotFoundError(f"nothing to compile is called {pattern}: see pyproject.toml")
    return found


def _compile(source: Path, modules: list[str]) -> None:
    """Each module's extension beside it, and one library with the code of all."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    with contextlib.chdir(source):
        extensions = mypycify(
            ["--ignore-missing-imports", *modules],
            opt_level=OPTIMIZATION,
            debug_level="0",
            group_name="tidelog",
        )
        command = build_ext(Distribution({"name": "tidelog", "ext_modules": extensions}))
        command.inplace = True
        command.ensure_finalized()
        command.run()
        shutil.rmtree("build")

"""Starting a node must not pay for what only people at a terminal need."""

from __future__ import annotations

import subprocess
import sys

SLOW_TO_IMPORT = ("typer", "rich", "confluent_kafka", "pydantic", "cramjam", "tomllib")


def test_serve_imports_nothing_it_does_not_need() -> None:
    code = (
        "import sys, tidelog.cli.main, tidelog.cli.serve; "
        f"print([name for name in {SLOW_TO_IMPORT!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_package_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "tidelog", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("tidelog ")

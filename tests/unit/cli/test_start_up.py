"""Starting a node must not pay for what only people at a terminal need."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.spark.pipelines.project import create

SLOW_TO_IMPORT = ("typer", "rich", "confluent_kafka", "pydantic", "cramjam", "tomllib")


def test_serve_imports_nothing_it_does_not_need() -> None:
    code = (
        "import sys, tidelog.cli.main, tidelog.cli.serve; "
        f"print([name for name in {SLOW_TO_IMPORT!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_commands_on_spark_are_listed_without_loading_it() -> None:
    code = (
        "import sys, tidelog.cli.spark, tidelog.cli.demo, tidelog.cli.app; "
        "print([name for name in ('pyspark', 'pyarrow', 'numba', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_the_extra_the_commands_on_spark_say_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; from tidelog.cli.main import main; "
        "sys.exit(main(['spark', 'sql', 'select 1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == 'error: the pipeline needs pyspark: pip install "tidelog[spark]"\n'


@pytest.mark.parametrize(
    "command", [("sql", "select 1"), ("pipeline", "run", "shop")], ids=["sql", "pipeline"]
)
def test_without_java_the_commands_on_spark_say_what_to_install(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    create(tmp_path / "shop")
    with socket.create_server(("127.0.0.1", 0)) as anybody:
        done = subprocess.run(
            [sys.executable, "-m", "tidelog", "spark", *command],
            env={
                **{name: text for name, text in os.environ.items() if name != "JAVA_HOME"},
                "PATH": str(tmp_path),
                "TIDELOG_BOOTSTRAP": f"127.0.0.1:{anybody.getsockname()[1]}",
            },
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: Spark needs Java 17 or newer")
    assert "openjdk-17-jre-headless" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_package_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "tidelog", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("tidelog ")

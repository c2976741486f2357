"""The wheel, for people who have no clone: built, installed in an environment of its own, used.

Nothing is downloaded: the build tool is a dependency of development, and the new environment finds
the wheel's own dependencies where ours are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300

TEST_OF_SOMEBODY_ELSE = """
from pathlib import Path

import tidelog as package


def test_the_broker_of_the_wheel_serves(tidelog):
    assert HOME in Path(package.__file__).parents
    assert tidelog.produce("orders", "x", "y") == [0, 1]
    assert [message.text for message in tidelog.records("orders")] == ["x", "y"]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    _run(build, cwd=ROOT, environment=os.environ)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it."""
    home = tmp_path_factory.mktemp("home") / "venv"
    venv.create(home, with_pip=False)
    python = str(home / "bin" / "python")
    install = ["install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    _run([sys.executable, "-m", "pip", "--python", python, *install], cwd=home)
    own = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    (own / "site-packages" / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def _run(command: list[str], *, cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    """Unless told otherwise, as somebody would who knows nothing of this clone."""
    strangers = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment or strangers,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = [name for name in archive.namelist() if ".dist-info/" not in name]
    ours = [
        str(path.relative_to(ROOT / "src"))
        for package in ("tidelog", "pyspark_tidelog")
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert sorted(packed) == sorted(ours)


def test_its_command_runs(home: Path, tmp_path: Path) -> None:
    assert "serve" in _run([str(home / "bin" / "tidelog"), "--help"], cwd=tmp_path)


def test_its_pytest_plugin_serves_a_project_of_somebody_else(home: Path, tmp_path: Path) -> None:
    text = TEST_OF_SOMEBODY_ELSE.replace("HOME", f"Path({str(home)!r})")
    (tmp_path / "test_theirs.py").write_text(text)
    python = str(home / "bin" / "python")
    told = _run([python, "-m", "pytest", "-q", "--rootdir", str(tmp_path), "."], cwd=tmp_path)
    assert "1 passed" in told

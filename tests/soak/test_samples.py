"""What is called flat, what a sample counts, and the tool itself for some seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.soak.samples import FEWEST, TOLERANCES, Sample, growth, table, take

_MB = 1_000_000
_STEADY = Sample(0, 100, 10, 12, 50 * _MB, 60 * _MB)
_ROOT = Path(__file__).resolve().parents[2]


def _rising(name: str, *, by: float, count: int = 40) -> list[Sample]:
    """One of the figures gets `by` more with each sample."""
    before = getattr(_STEADY, name)
    return [replace(_STEADY, **{name: int(before + by * number)}) for number in range(count)]


def test_what_stays_as_it_is_is_flat() -> None:
    assert growth([_STEADY] * 40) == []


@pytest.mark.parametrize("name", TOLERANCES)
def test_what_doubles_is_not_flat(name: str) -> None:
    (found,) = growth(_rising(name, by=getattr(_STEADY, name) / 20))
    assert found.startswith(f"{name} grow from ")


@pytest.mark.parametrize("name", TOLERANCES)
def test_what_shrinks_or_is_replaced_is_flat(name: str) -> None:
    assert growth(_rising(name, by=-getattr(_STEADY, name) / 80)) == []
    wave = [replace(_STEADY, **{name: getattr(_STEADY, name) * (1 + n % 2)}) for n in range(40)]
    assert growth(wave) == []


def test_the_first_quarter_is_a_warm_up() -> None:
    cold = [replace(_STEADY, rss_bytes=_MB, threads=1, descriptors=3)] * 10
    assert growth([*cold, *[_STEADY] * 30]) == []


def test_a_single_peak_is_not_growth() -> None:
    samples = [_STEADY] * 40
    samples[-3] = replace(_STEADY, descriptors=10_000)
    assert growth(samples) == []


def test_too_few_samples_are_no_proof() -> None:
    (found,) = growth([_STEADY] * (FEWEST - 1))
    assert "are needed" in found


def test_a_sample_counts_deleted_files_that_are_open(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    with path.open("wb") as file:
        file.write(os.urandom(100_000))
        file.flush()
        os.fsync(file.fileno())
        before = take([os.getpid()], tmp_path, 0)
        path.unlink()
        after = take([os.getpid()], tmp_path, 1)
    assert after.deleted_files == before.deleted_files + 1
    assert before.disk_bytes >= 100_000
    assert after.descriptors == before.descriptors
    gone = take([os.getpid()], tmp_path, 2)
    assert gone.deleted_files == before.deleted_files
    assert gone.descriptors == before.descriptors - 1
    assert gone.disk_bytes <= after.disk_bytes - 100_000


def test_the_table_has_five_rows_of_80_columns() -> None:
    lines = table(_rising("descriptors", by=1)).splitlines()
    assert len(lines) == 6
    assert max(map(len, lines)) <= 80
    assert [line.split()[1] for line in lines[1:]] == ["100", "109", "119", "129", "139"]


def test_some_seconds_of_it() -> None:
    """They say nothing of growth, but all kinds of load have done something."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--minutes", "0.1", "--every", "0.6"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.stderr == ""
    title, heading, *rows, rounds, verdict = result.stdout.splitlines()[:9]
    assert title.startswith("1 node(s) for 0.1 min")
    assert heading.split()[0] == "seconds"
    assert all(len(row.split()) == 6 for row in rows)
    counts = [int(word.rstrip(",")) for word in rounds.split() if word.rstrip(",").isdecimal()]
    assert len(counts) == 4
    assert min(counts) > 0
    assert result.returncode == (0 if verdict == "flat" else 1)

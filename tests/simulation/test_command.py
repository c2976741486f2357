"""`tidelog sim run`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidelog.cli.main import main
from tidelog.model.safeguards import Safeguard
from tidelog.sim.ablations import find_ablated
from tidelog.sim.checkers import check_history
from tidelog.sim.history import load


def test_green_seeds_end_with_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "--seeds", "2", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "green" in out
    assert "2 seeds" in out
    assert "CPU s a seed" in out


def test_a_red_seed_ends_with_failure_and_says_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    discovery = find_ablated(Safeguard.DEDUPE_WINDOW)
    assert discovery is not None
    seed = str(discovery.outcome.seed)
    assert main(["sim", "run", "--seed", seed, "--ablate", "DEDUPE_WINDOW"]) == 1
    out = capsys.readouterr().out
    assert f"seed {seed}, without DEDUPE_WINDOW" in out
    assert f"replay: tidelog sim run --seed {seed} --ablate DEDUPE_WINDOW" in out


def test_a_red_seed_among_many_is_told_as_soon_as_it_is_met(
    capsys: pytest.CaptureFixture[str],
) -> None:
    discovery = find_ablated(Safeguard.DEDUPE_WINDOW)
    assert discovery is not None
    seed = str(discovery.outcome.seed)
    chosen = ["--first", seed, "--seeds", "2", "--jobs", "1"]
    assert main(["sim", "run", *chosen, "--ablate", "DEDUPE_WINDOW"]) == 1
    assert capsys.readouterr().err.startswith(f"seed {seed} is red: ")


def test_a_safeguard_that_is_none_is_answered_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sim", "run", "--ablate", "?"]) == 2
    assert "TRUNCATE_BY_EPOCH" in "".join(capsys.readouterr().err.split())


def test_a_long_run_can_be_made_in_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "--first", "7", "--seeds", "2", "--jobs", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sorted(document["trace_hashes"]) == ["7", "8"]


def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "--seeds", "3", "--jobs", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seeds"] == 3
    assert document["cpu_seconds"] > 0
    assert document["red"] == []
    assert sorted(document["trace_hashes"]) == ["0", "1", "2"]
    assert document["counters"]["acknowledged"] > 0


def test_the_history_of_a_seed_can_be_kept_and_checked_again(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert main(["sim", "run", "--seed", "1", "--history", str(path)]) == 0
    entries = load(path.read_text())
    assert len(entries) > 100
    assert check_history(entries)[0] == []

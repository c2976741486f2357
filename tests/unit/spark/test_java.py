"""Without a fitting Java the message says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.spark.java import PACKAGE, JavaMissing, find_java, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("no such thing", None),
    ],
)
def test_the_version_is_the_feature_number(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def java_that_says(directory: Path, text: str) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(0o755)
    return program


def test_without_java_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=PACKAGE):
        find_java({"PATH": str(tmp_path)})


def test_a_java_too_old_is_refused_by_its_version(tmp_path: Path) -> None:
    program = java_that_says(tmp_path, 'openjdk version "11.0.2"')
    with pytest.raises(JavaMissing, match=r"17 or newer; .* is Java 11"):
        find_java({"PATH": str(program.parent)})


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    ours = java_that_says(tmp_path / "ours", 'openjdk version "21.0.1"')
    other = java_that_says(tmp_path / "other", 'openjdk version "11.0.2"')
    environment = {"JAVA_HOME": str(tmp_path / "ours"), "PATH": str(other.parent)}
    assert find_java(environment) == ours


def test_a_wrong_java_home_is_said(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match="no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_a_java_that_says_nothing_is_refused(tmp_path: Path) -> None:
    program = java_that_says(tmp_path, "?")
    with pytest.raises(JavaMissing, match="says no version"):
        find_java({"PATH": str(program.parent)})

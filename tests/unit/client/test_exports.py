"""The names people import, and what importing costs those who use none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tidelog
import tidelog.client
import tidelog.testing


@pytest.mark.parametrize("package", [tidelog, tidelog.client, tidelog.testing])
def test_every_name_that_is_promised_is_there(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name).__name__.endswith(name)


@pytest.mark.parametrize("package", [tidelog, tidelog.client, tidelog.testing])
def test_a_name_that_is_not_is_refused_as_usual(package: object) -> None:
    with pytest.raises(AttributeError, match="no attribute 'Broker'"):
        _ = package.Broker  # type: ignore[attr-defined]


def test_importing_tidelog_loads_nothing_heavy() -> None:
    code = "import sys, tidelog; print(sorted(m for m in sys.modules if m.startswith('tidelog')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['tidelog']"

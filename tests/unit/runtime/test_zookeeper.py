"""The way to ZooKeeper, where there is none: what people are told who have not set it up."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tidelog.runtime.service import ServeError, ServeOptions, Service

CHOSEN = {"consensus": "zookeeper", "zookeeper.connect": "127.0.0.1:1"}


def refusal(tmp_path: Path, settings: dict[str, str]) -> str:
    async def start() -> None:
        options = ServeOptions(tmp_path, port=0, settings=dict(settings))
        Service(asyncio.get_running_loop(), options)

    with pytest.raises(ServeError) as refused:
        asyncio.run(start())
    return str(refused.value)


def test_without_kazoo_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    said = refusal(tmp_path, CHOSEN)
    assert said == "consensus=zookeeper needs the package kazoo: pip install 'tidelog[zookeeper]'"


def test_without_an_address_the_error_says_what_to_give(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"consensus": "zookeeper"})
    assert "zookeeper.connect=HOST:PORT" in said
    assert "\n" not in said

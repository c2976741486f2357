"""Every example of `docs/client.md`, in the order of the page, on one broker."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
from tests.support.doc_examples import examples

from tidelog.testing import Node


def test_the_examples_of_the_page_do_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    billed: list[bytes] = []
    with Node() as node:
        monkeypatch.setenv("TIDELOG_BOOTSTRAP", node.bootstrap)
        node.create_topic("orders")
        for code in examples("client.md"):
            names: dict[str, Any] = {"bootstrap": node.bootstrap}

            def bill(key: bytes, value: bytes, names: dict[str, Any] = names) -> None:
                billed.append(value)
                if key == b"bob":
                    names["consumer"].stop()

            names["bill"] = bill
            with contextlib.redirect_stdout(io.StringIO()):
                exec(code, names)
    assert billed == [b"2 apples", b"1 pear"]

"""pytest's plugin: `tidelog`, a broker for one test, and `tidelog_session`, one for all of them.

Settings of the node, by Kafka's names: for a test by the marker, for all in pytest's ini file.

::

    @pytest.mark.tidelog(settings={"num.partitions": 4})
    def test_orders(tidelog): ...

    [tool.pytest.ini_options]
    tidelog_settings = ["auto.create.topics.enable=false"]

pytest imports this module in every run, so it imports nothing of ours before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.node import Node, Setting

_INI = "tidelog_settings"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        _INI, "settings of Tidelog nodes in tests, one NAME=VALUE a line", type="linelist"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "tidelog(settings={...}): settings of the node that the fixture `tidelog` starts"
    )


@pytest.fixture
def tidelog(request: pytest.FixtureRequest) -> Iterator[Node]:
    """A broker of this test's own: empty, on a free port, gone afterwards."""
    with _node({**_ini_settings(request.config), **_marked_settings(request)}) as node:
        yield node


@pytest.fixture(scope="session")
def tidelog_session(request: pytest.FixtureRequest) -> Iterator[Node]:
    """One broker for all tests of this process (under xdist: of each worker). Faster still, but
    tests must keep apart by the names of their topics and groups, and heal what they break."""
    with _node(_ini_settings(request.config)) as node:
        yield node


@pytest.fixture
def tidelog_cluster() -> None:
    """The name is taken for the day when a node can have peers."""
    pytest.fail(
        "tidelog_cluster is reserved: this release has single nodes only; use the fixture tidelog",
        pytrace=False,
    )


def _node(settings: dict[str, Setting]) -> Node:
    from tidelog.model.settings import InvalidSetting
    from tidelog.testing.node import Node

    try:
        return Node(settings)
    except InvalidSetting as error:
        raise pytest.UsageError(f"the settings of the node: {error}") from None


def _marked_settings(request: pytest.FixtureRequest) -> dict[str, Setting]:
    """All markers count, the nearest to the test most."""
    settings: dict[str, Setting] = {}
    for marker in reversed(list(request.node.iter_markers("tidelog"))):
        if marker.args or set(marker.kwargs) - {"settings"}:
            raise pytest.UsageError("write @pytest.mark.tidelog(settings={...})")
        settings.update(marker.kwargs.get("settings", {}))
    return settings


def _ini_settings(config: pytest.Config) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    for line in config.getini(_INI):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{_INI}: {line!r} is not NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings

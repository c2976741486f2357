"""One node for the tests of a file, and topics of their own for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.compat.clients.confluent import QUIET
from tests.compat.clients.message import PATIENCE_S
from tests.support.node_process import RunningNode, node_starter

MakeTopic = Callable[..., str]

_RUNS = count()
"""Of tests: one that is run again gets topics of its own."""


@pytest.fixture(scope="module")
def shared_node(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[RunningNode]:
    """A node that all tests of a file use. No test may stop it; it must be well at the end.

    A file that needs other settings names them in `NODE_ARGUMENTS`.
    """
    with node_starter() as start:
        arguments = getattr(request.module, "NODE_ARGUMENTS", ())
        node = start(tmp_path_factory.mktemp("node") / "data", *arguments)
        yield node
        assert node.stop() == 0, node.log
        assert "Traceback" not in node.log, node.log


@pytest.fixture(scope="module")
def bootstrap(shared_node: RunningNode) -> str:
    return shared_node.bootstrap


@pytest.fixture
def make_topic(bootstrap: str, request: pytest.FixtureRequest) -> MakeTopic:
    """`make_topic(partitions, **configs)`: a new topic, named after the test."""
    stem, made = f"{_topic_name(request)}.{next(_RUNS)}", count()

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"{stem}-{next(made)}"
        create_topic(bootstrap, name, partitions, configs)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A new topic of one partition."""
    return make_topic()


@pytest.fixture
def unmade_topic(request: pytest.FixtureRequest) -> str:
    """A name that no topic has."""
    return f"{_topic_name(request)}-unmade"


def create_topic(bootstrap: str, name: str, partitions: int, configs: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    config = {setting.replace("_", "."): value for setting, value in configs.items()}
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
    admin.create_topics([new])[name].result(PATIENCE_S)


def _topic_name(request: pytest.FixtureRequest) -> str:
    """The test's name as a topic's: letters, digits, dots; at most 200 of them."""
    return "".join(each if each.isalnum() else "." for each in request.node.name)[:200]

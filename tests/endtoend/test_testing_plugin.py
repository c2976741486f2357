"""The fixtures of pytest, in projects of their own."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import tidelog
from tidelog.testing import plugin

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "tidelog.testing.plugin")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project. Installed plugins are not loaded, so that ours is there exactly once, and
    it is the one of this source tree."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(tidelog.__file__).parents[1]))
    return pytester


def test_the_project_offers_the_plugin_to_pytest() -> None:
    project_file = Path(__file__).resolve().parents[2] / "pyproject.toml"
    declared = tomllib.loads(project_file.read_text())["project"]["entry-points"]["pytest11"]
    assert declared == {"tidelog": plugin.__name__}


def test_each_test_gets_a_node_of_its_own(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_it_is_empty(tidelog, number):
            assert tidelog.produce("orders", "x") == [0]
            assert [message.text for message in tidelog.records("orders")] == ["x"]
        """
    )
    project.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=2)


def test_a_session_has_one_node_for_all(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        seen = []

        def test_one(tidelog_session):
            seen.append(tidelog_session.bootstrap)

        def test_two(tidelog_session, tidelog):
            assert seen == [tidelog_session.bootstrap]
            assert tidelog.bootstrap not in seen
        """
    )
    project.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=2)


def test_settings_come_from_the_ini_file_and_the_markers(project: pytest.Pytester) -> None:
    project.makeini(
        """
        [pytest]
        tidelog_settings =
            num.partitions = 2
            auto.create.topics.enable = false
        """
    )
    project.makepyfile(
        """
        import pytest
        from tidelog.testing import NodeError

        def partitions(node):
            node.create_topic("orders", partitions=-1)
            return len(node.describe()["partitions"])

        def test_from_the_file(tidelog):
            assert partitions(tidelog) == 2

        def test_in_a_session(tidelog_session):
            assert partitions(tidelog_session) == 2

        @pytest.mark.tidelog(settings={"num.partitions": 3})
        class TestMarked:
            def test_from_the_class(self, tidelog):
                assert partitions(tidelog) == 3

            @pytest.mark.tidelog(settings={"num.partitions": 4})
            def test_from_the_test(self, tidelog):
                assert partitions(tidelog) == 4
        """
    )
    project.runpytest_subprocess(*PLUGIN, "--strict-markers").assert_outcomes(passed=4)


def test_a_wrong_setting_is_said_in_one_line(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.tidelog(settings={"num.partition": 3})
        def test_it(tidelog): ...
        """
    )
    result = project.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*the settings of the node: unknown node setting 'num.partition'*"]
    )


def test_a_cluster_is_refused_in_one_line(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(tidelog_cluster): ...")
    result = project.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*tidelog_cluster is reserved: * use the fixture tidelog"])
    assert "Traceback" not in result.stdout.str()


def test_ten_at_once_on_several_workers(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import contextlib
        import pytest
        from tidelog.testing import Node

        @pytest.mark.parametrize("number", range(10))
        def test_it(tidelog, tidelog_session, number):
            with contextlib.ExitStack() as stack:
                others = [stack.enter_context(Node()) for _ in range(4)]
                for node in (tidelog, *others):
                    assert node.produce("orders", str(number)) == [0]
                    assert [each.text for each in node.records("orders")] == [str(number)]
                tidelog.crash()
                tidelog.restart()
                assert [each.text for each in tidelog.records("orders")] == [str(number)]
        """
    )
    result = project.runpytest_subprocess(*PLUGIN, "-p", "xdist.plugin", "-n", "2")
    result.assert_outcomes(passed=10)


def test_a_test_on_asyncio_uses_it_like_any_other(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import asyncio
        from tidelog.aio import Producer

        def test_it(tidelog):
            async def main():
                async with Producer(tidelog.bootstrap) as producer:
                    await producer.send("orders", "x")

            asyncio.run(main())
            assert [message.text for message in tidelog.records("orders")] == ["x"]
        """
    )
    project.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)


def test_loading_the_plugin_loads_neither_broker_nor_client(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_it():
            loaded = [name for name in sys.modules if name.startswith("tidelog.")]
            assert loaded == ["tidelog.testing", "tidelog.testing.plugin"]
            assert "confluent_kafka" not in sys.modules
            assert "asyncio" not in sys.modules
        """
    )
    project.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)


def test_a_node_needs_no_client_library(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_it(tidelog):
            tidelog.produce("orders", "x")
            assert tidelog.records("orders")
            assert "confluent_kafka" not in sys.modules
        """
    )
    project.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)

"""A pipeline's directory: written once, from a template, with the topic's own fields."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tidelog.spark.errors import PipelineError
from tidelog.spark.pipelines.project import TEMPLATES, create, defaults, find, rendered, table_name

NAMES = [each.name for each in TEMPLATES]
ODD_FIELDS = {"order id": "bigint", "my city": "string", "paid at": "timestamp", "a-b": "double"}


@pytest.mark.parametrize("template", NAMES)
def test_every_template_is_whole(tmp_path: Path, template: str) -> None:
    paths = create(tmp_path / "shop", template)
    assert {path.suffix for path in paths} >= {".yml", ".py"}
    for path in paths:
        assert "${" not in path.read_text()
        assert not path.name.endswith(".txt")
    project = find(tmp_path / "shop")
    spec = yaml.safe_load(project.spec_path.read_text())
    assert spec["name"] == "shop"
    assert (project.directory / "transformations").is_dir()


@pytest.mark.parametrize("fields", [None, ODD_FIELDS], ids=["sample", "odd names"])
@pytest.mark.parametrize("template", NAMES)
def test_the_python_of_a_template_compiles(template: str, fields: dict[str, str] | None) -> None:
    texts = rendered(template, {"name": "shop", **defaults("my-topic.v2", fields)})
    for name, text in texts.items():
        if name.endswith(".py"):
            compile(text, name, "exec")


def test_fields_are_chosen_by_their_types() -> None:
    chosen = defaults("orders", {"id": "bigint", "n": "double", "who": "string", "t": "timestamp"})
    assert [chosen[each] for each in ("id", "by", "time", "amount")] == ["id", "who", "t", "n"]


def test_without_a_time_among_the_fields_the_records_is_taken() -> None:
    assert defaults("orders", {"id": "bigint"})["time"] == "timestamp"


def test_a_topics_name_becomes_one_that_sql_takes() -> None:
    assert table_name("orders.v2-a") == "orders_v2_a"
    assert table_name("2026") == "t_2026"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    create(tmp_path / "shop")
    with pytest.raises(PipelineError, match="exists already"):
        create(tmp_path / "shop")


@pytest.mark.parametrize("name", ["1shop", "a b", "shop.x"])
def test_a_name_that_spark_would_not_take_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match="letters, digits"):
        create(tmp_path / name)


def test_an_unknown_template_is_answered_with_the_known(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="known are sql, windows"):
        create(tmp_path / "shop", "magic")


def test_a_pipeline_that_is_not_there_is_said_with_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="tidelog spark pipeline init"):
        find(tmp_path / "nothing")
    with pytest.raises(PipelineError, match="it is no pipeline"):
        find(tmp_path)

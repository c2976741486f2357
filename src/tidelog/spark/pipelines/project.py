"""A pipeline's directory: `spark-pipeline.yml`, the definitions, and what runs leave behind.

::

    shop/spark-pipeline.yml       name, where the state is, which files are definitions
    shop/transformations/         SQL and Python: yours to edit
    shop/.state/                  checkpoints, tables, the catalog; delete it to begin anew

`create` writes one from a template: files of the package with `${topic}` and the like in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from tidelog.spark.errors import PipelineError

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
STATE = ".state"
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*$")
SAMPLE_FIELDS = {
    "order": "bigint",
    "city": "string",
    "goods": "string",
    "cents": "bigint",
    "at": "timestamp",
}
"""Of the orders that `tidelog demo` sends."""

_HOME = "tidelog.spark.pipelines"
_SPEC = """\
# One pass over what is new: tidelog spark pipeline run ${name}
name: ${name}
storage: .state/storage
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.shuffle.partitions: "2"
"""


@dataclass(frozen=True, slots=True)
class TemplateInfo:
    """A row of `pipeline init --help`."""

    name: str
    summary: str


TEMPLATES = (
    TemplateInfo("sql", "one topic to another, through SQL"),
    TemplateInfo("windows", "counts per window of time, late records allowed for"),
    TemplateInfo("dedup", "each record once, by its id"),
    TemplateInfo("dead-letters", "good records on, broken ones aside with the reason"),
    TemplateInfo("quality", "named checks; what fails one goes aside, and is counted"),
    TemplateInfo("shop", "all of it together: what `tidelog demo` runs"),
)


@dataclass(frozen=True, slots=True)
class Project:
    """A pipeline on disk."""

    directory: Path
    spec_path: Path

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def state(self) -> Path:
        return self.directory / STATE

    def storage_of(self, given: str) -> str:
        """Spark wants an absolute URI; in the file it stands relative, so that it can be moved."""
        if "://" in given:
            return given
        path = (self.directory / given).resolve()
        path.mkdir(parents=True, exist_ok=True)
        return path.as_uri()


def find(name: str | Path) -> Project:
    """The pipeline in that directory; `PipelineError` says how to make one."""
    directory = Path(name).resolve()
    for each in SPEC_NAMES:
        if (directory / each).is_file():
            return Project(directory, directory / each)
    if directory.is_dir():
        raise PipelineError(f"there is no {SPEC_NAMES[0]} in {name}: it is no pipeline")
    raise PipelineError(
        f"there is no pipeline {str(name)!r}: make one with `tidelog spark pipeline init {name}`"
    )


def create(
    directory: Path,
    template: str = "sql",
    *,
    topic: str = "orders",
    fields: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write the template's files; gives their paths. Nothing that exists is overwritten."""
    if not _NAME.match(directory.name):
        raise PipelineError(
            f"a pipeline's name has letters, digits, - and _, and begins with a letter: "
            f"not {directory.name!r}"
        )
    if directory.exists():
        raise PipelineError(f"{directory} exists already: choose another name")
    texts = rendered(template, {"name": directory.name, **defaults(topic, fields)})
    paths = []
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        paths.append(path)
    return paths


def rendered(template: str, values: Mapping[str, str]) -> dict[str, str]:
    """The template's files with the values in their places, by path."""
    if template not in [each.name for each in TEMPLATES]:
        known = ", ".join(each.name for each in TEMPLATES)
        raise PipelineError(f"there is no template {template!r}: known are {known}")
    home = resources.files(_HOME) / "templates" / template
    texts = {SPEC_NAMES[0]: Template(_SPEC).substitute(values), ".gitignore": f"{STATE}/\n"}
    for file in sorted(home.iterdir(), key=lambda each: each.name):
        texts[f"transformations/{_file_name(file)}"] = Template(file.read_text()).substitute(values)
    return texts


def defaults(topic: str, fields: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a template is filled with, from the fields of the topic's records: their types by name,
    those of the sample orders if nobody knows better."""
    kinds = dict(fields or SAMPLE_FIELDS)
    names = list(kinds)
    texts = [name for name in names if kinds[name] == "string"]
    times = [name for name in names if kinds[name] == "timestamp"]
    numbers = [name for name in names if kinds[name] in ("bigint", "double")]
    return {
        "topic": topic,
        "table": table_name(topic),
        "schema": ", ".join(f"{_quoted(name)} {kind}" for name, kind in kinds.items()),
        "columns": ", ".join(map(_quoted, names)),
        "quoted_columns": ", ".join(json.dumps(name) for name in names),
        "id": _quoted(names[0]),
        "id_name": names[0],
        "by": _quoted((texts or names)[0]),
        "time": _quoted((times or ["timestamp"])[0]),
        "amount": _quoted((numbers or names)[-1]),
        "is_amount_good": f"{_quoted(numbers[-1])} > 0" if numbers else "true",
        "total": f"sum({_quoted(numbers[-1])})" if numbers else "count(*)",
    }


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def table_name(topic: str) -> str:
    """A topic's name as SQL takes it without quotes."""
    name = re.sub(r"\W", "_", topic)
    return name if name[:1].isalpha() else f"t_{name}"


def _file_name(file: Traversable) -> str:
    """Python in a template is stored as `.py.txt`: it is text to us, not a module of ours."""
    return file.name.removesuffix(".txt")

"""Runs pipelines one after the other on one Spark server, in a process of its own.

`python -m tests.support.pipelines BOOTSTRAP DIR…` prints each pipeline's flows, or why it failed.
A server takes most of a minute to start on a slow machine; a test of all templates needs one only.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from tidelog.client.connection import BOOTSTRAP_VARIABLE
from tidelog.spark.errors import PipelineError
from tidelog.spark.pipelines.project import find
from tidelog.spark.pipelines.run import run_on, serving


def main(bootstrap: str, *directories: str) -> None:
    os.environ[BOOTSTRAP_VARIABLE] = bootstrap
    outcomes: dict[str, object] = {}
    projects = [find(each) for each in directories]
    with tempfile.TemporaryFile() as java_log, serving(projects[0], None, java_log) as spark:
        for project in projects:
            try:
                outcomes[project.name] = run_on(spark, project).flows
            except PipelineError as error:
                outcomes[project.name] = str(error)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs a pipeline: a Spark Connect server in a Java process of our own, and Spark's graph on it.

Spark's own command starts two Java processes and a Python one, on a fixed port. Here this process
is the client, and the server is the one Java process it starts, on a free port: half the start-up,
several pipelines at a time, and Java ends whenever this process does, by whatever signal, since it
reads our end of a pipe.

Three facts of Spark 4.3 that the settings answer: the catalog must be Hive's from the first start,
or the second run does not know the tables of the first; its database is a Derby directory, which
one run at a time may open; and a run is one pass over what is there (`availableNow`).
"""

from __future__ import annotations

import io
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from tidelog.spark.errors import PipelineError
from tidelog.spark.pipelines.project import Project
from tidelog.spark.pipelines.users_code import UsersCode
from tidelog.spark.plain_errors import plain, speaking_plainly
from tidelog.spark.sessions import JAVA_OPTIONS, is_connect_address, session

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

DEFAULT_MASTER = "local[2]"
_FLOW = re.compile(r"^Flow (?P<name>\S+) (?:is|has) (?P<state>[A-Z]+)")
_FAILED = ("FAILED", "SKIPPED", "STOPPED")
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""Server and client both read it. Without, anybody on this machine could run code as this user."""

_ATTEMPTS = 3
_TOO_BUSY = "Python worker failed to connect back"
_IN_USE = "Another instance of Derby"
_WRONG = "Failed to resolve flow: "


@dataclass(slots=True)
class Outcome:
    """What became of each flow, by its name without catalog and schema."""

    flows: dict[str, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    @property
    def failed(self) -> list[str]:
        return [name for name, state in self.flows.items() if state in _FAILED]


@dataclass(frozen=True, slots=True)
class Wish:
    """What to run: all of it incrementally, unless told otherwise."""

    full_refresh: Sequence[str] = ()
    is_all_refreshed: bool = False
    is_dry: bool = False


EVERYTHING_NEW = Wish()
OnFlow = Callable[[str, str], None]


def run(
    project: Project,
    wish: Wish = EVERYTHING_NEW,
    *,
    master: str | None = None,
    java_log: IO[bytes] | None = None,
    on_flow: OnFlow = lambda name, state: None,
) -> Outcome:
    """Run the pipeline once over all that is new; `on_flow(name, state)` as it goes."""
    with serving(project, master, java_log) as spark:
        return run_on(spark, project, wish, on_flow=on_flow)


def run_on(
    spark: ConnectSession,
    project: Project,
    wish: Wish = EVERYTHING_NEW,
    *,
    on_flow: OnFlow = lambda name, state: None,
) -> Outcome:
    """The same on a server that is there already.

    Spark gives a Python process ten seconds to start, which a machine that is very busy may not
    keep: then the run is begun again, from where its flows have come to.
    """
    for attempts_left in range(_ATTEMPTS - 1, -1, -1):
        outcome, trouble = _attempt(spark, project, wish, on_flow)
        if not trouble:
            return outcome
        if _TOO_BUSY not in trouble or not attempts_left:
            raise PipelineError(trouble)
        wish = Wish(is_dry=wish.is_dry)
    raise AssertionError("the last attempt returns or raises")


def _attempt(
    spark: ConnectSession, project: Project, wish: Wish, on_flow: OnFlow
) -> tuple[Outcome, str]:
    """What became of the flows, and why it is not what it should be."""
    outcome = Outcome()
    try:
        for message in _events(spark, project, wish):
            _note(outcome, message, on_flow)
    except _spark_errors() as error:
        return outcome, _why(outcome, plain(error))
    if outcome.failed:
        return outcome, _why(outcome, f"flow {outcome.failed[0]} failed")
    return outcome, ""


def _spark_errors() -> tuple[type[Exception], ...]:
    from grpc import RpcError
    from pyspark.errors import PySparkException

    return (PySparkException, RpcError)


@contextmanager
def serving(
    project: Project, master: str | None = None, java_log: IO[bytes] | None = None
) -> Iterator[ConnectSession]:
    """A client's session on a server of our own, or on the one that `master` names."""
    address = master or DEFAULT_MASTER
    configuration: dict[str, Any] = dict(_spec(project).configuration)
    if is_connect_address(address):
        with speaking_plainly():
            yield session(address, **configuration)  # type: ignore[misc]
        return
    project.state.mkdir(exist_ok=True)
    os.environ.setdefault(_TOKEN, secrets.token_urlsafe(24))
    settings = {**_server_settings(project), **configuration}
    with speaking_plainly():
        classic = session(
            address, app_name=f"pipeline {project.name}", java_log=java_log, **settings
        )
        client = _client_of(classic, configuration)
    try:
        yield client
    finally:
        client.stop()
        classic.stop()


def _spec(project: Project) -> Any:
    import yaml
    from pyspark.pipelines.cli import load_pipeline_spec

    try:
        with speaking_plainly():
            return load_pipeline_spec(project.spec_path)
    except (yaml.YAMLError, TypeError, KeyError) as error:
        said = " ".join(str(error).split())
        raise PipelineError(f"{project.spec_path.name} can't be read: {said}") from None


def _server_settings(project: Project) -> dict[str, str]:
    database = project.state / "metastore"
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": (project.state / "warehouse").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={database};create=true"
        ),
        "spark.driver.extraJavaOptions": (
            f'{JAVA_OPTIONS} "-Dderby.stream.error.file={project.state / "derby.log"}"'
        ),
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }


def _client_of(classic: Any, configuration: Mapping[str, str]) -> ConnectSession:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    service = "org.apache.spark.sql.connect.service.SparkConnectService$"
    port = getattr(getattr(classic._jvm, service), "MODULE$").localPort()
    os.environ["SPARK_LOCAL_REMOTE"] = "1"
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    builder = ConnectSession.builder.remote(f"sc://localhost:{port}")
    for name, value in configuration.items():
        builder = builder.config(name, value)
    return builder.config("spark.sql.connect.serverStacktrace.enabled", "false").getOrCreate()


def _events(spark: ConnectSession, project: Project, wish: Wish) -> Iterator[str]:
    """Hand the definitions to Spark, start the run, and give what it tells of it."""
    from pyspark.pipelines.cli import register_definitions
    from pyspark.pipelines.spark_connect_graph_element_registry import (
        SparkConnectGraphElementRegistry,
    )
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    spec = _spec(project)
    session: Any = spark
    graph = create_dataflow_graph(
        session,
        default_catalog=spec.catalog,
        default_database=spec.database,
        sql_conf=spec.configuration,
    )
    registry = SparkConnectGraphElementRegistry(session, graph)
    with _silent_standard_output(), UsersCode(project.directory):
        register_definitions(project.spec_path, registry, spec, session, graph)
    told = start_run(
        session,
        graph,
        full_refresh=list(wish.full_refresh),
        full_refresh_all=wish.is_all_refreshed,
        refresh=[],
        dry=wish.is_dry,
        storage=project.storage_of(spec.storage),
    )
    for result in told:
        if "pipeline_event_result" in result:
            yield result["pipeline_event_result"].event.message


@contextmanager
def _silent_standard_output() -> Iterator[None]:
    """Spark tells each file it loads; standard output is for results."""
    with redirect_stdout(io.StringIO()):
        yield


def _note(outcome: Outcome, message: str, on_flow: OnFlow) -> None:
    match = _FLOW.match(message)
    if match is None:
        if "FAILED" in message or "Error" in message:
            outcome.complaints.append(message)
        return
    name = match["name"].rsplit(".", 1)[-1].strip("`'")
    outcome.flows[name] = match["state"]
    on_flow(name, match["state"])
    if match["state"] == "FAILED":
        outcome.complaints.append(message)


def _why(outcome: Outcome, said: str) -> str:
    """In one line: all that is wrong with the definitions, or else the first complaint of the run,
    which is the cause of the others.

    What is wrong with the definitions Spark tells in no order, and a flow that only reads from a
    failed one may come first."""
    texts = [*outcome.complaints, said]
    if any(_IN_USE in text for text in texts):
        return "this pipeline runs already: wait for it, or stop it"
    if wrong := sorted({plain(PipelineError(text)) for text in texts if _WRONG in text}):
        return "; ".join(wrong)
    spoken = [plain(PipelineError(text)) for text in texts]
    return next((text for text in spoken if text), said)

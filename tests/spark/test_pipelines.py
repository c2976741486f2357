"""Declarative pipelines: every template runs as it comes, against a real node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.node_process import RunningNode

from tidelog.client import Admin, Connection, Message, Producer, Reader
from tidelog.spark.pipelines.project import create

pytestmark = pytest.mark.xdist_group("spark")

ROOT = Path(__file__).resolve().parents[2]
BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)
CITIES = ("Oslo", "Lisbon")
GOOD = 40
TEMPLATES = ("sql", "windows", "dedup", "dead-letters", "quality")
"""`shop` is run by the demo, which has a test of its own."""


def order(number: int) -> dict[str, Any]:
    at = BEGIN + timedelta(minutes=number)
    return {
        "order": number,
        "city": CITIES[number % 2],
        "goods": "rope",
        "cents": 100 + number,
        "at": at.isoformat().replace("+00:00", "Z"),
    }


def send_orders(bootstrap: str, topic: str) -> None:
    """Forty good ones a minute apart, of which the first five come twice; two that are no JSON, and
    one without a city."""
    Admin(Connection(bootstrap)).create_topic(topic, partitions=2)
    with Producer(bootstrap) as producer:
        for number in [*range(GOOD), *range(5)]:
            producer.send(topic, json.dumps(order(number)), key=str(number))
        producer.send(topic, "broken")
        producer.send(topic, '{"order": "many"}')
        producer.send(topic, json.dumps({**order(99), "city": None}))


def records(bootstrap: str, topic: str) -> list[Message]:
    connection = Connection(bootstrap)
    admin = Admin(connection)
    spans = admin.offsets(admin.topic(topic).topic_partitions)
    reader = Reader(connection, starts={place: span.start for place, span in spans.items()})
    found: list[Message] = []

    def is_read() -> bool:
        found.extend(reader.poll())
        return reader.is_at_end

    eventually(is_read, f"the end of {topic}")
    reader.close()
    return found


def documents(bootstrap: str, topic: str) -> list[Any]:
    return [json.loads(each.value or b"null") for each in records(bootstrap, topic)]


@pytest.fixture(scope="module")
def ran(spark_node: RunningNode, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every template once, each on a topic of its own; and `sql` a second time, with more."""
    home = tmp_path_factory.mktemp("pipelines")
    directories = []
    for template in TEMPLATES:
        topic = f"p-{template}"
        send_orders(spark_node.bootstrap, topic)
        create(home / template, template, topic=topic)
        directories.append(str(home / template))
    command = [sys.executable, "-m", "tests.support.pipelines", spark_node.bootstrap]
    done = subprocess.run(
        [*command, *directories, directories[0]],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_flow_of_a_template_completes(ran: dict[str, Any], template: str) -> None:
    flows = ran[template]
    assert isinstance(flows, dict), flows
    assert set(flows.values()) == {"COMPLETED"}


def test_sql_takes_readable_records_from_one_topic_to_another_once(
    ran: dict[str, Any], spark_node: RunningNode
) -> None:
    """Though the pipeline ran twice."""
    found = documents(spark_node.bootstrap, "p-sql.out")
    assert Counter(each["order"] for each in found) == Counter([*range(GOOD), *range(5), 99])
    assert {each["city"] for each in found if each["order"] == 1} == {"Lisbon"}


def test_windows_that_can_not_change_any_more_are_sent_with_their_counts(
    ran: dict[str, Any], spark_node: RunningNode
) -> None:
    found = {
        (datetime.fromisoformat(each["minute"]), each.get("city")): each["records"]
        for each in documents(spark_node.bootstrap, "p-windows.per-minute")
    }
    last = BEGIN + timedelta(minutes=99)
    closed = [
        number
        for number in [*range(GOOD), *range(5)]
        if BEGIN + timedelta(minutes=number + 1) <= last - timedelta(minutes=10)
    ]
    assert found == Counter(
        (BEGIN + timedelta(minutes=number), CITIES[number % 2]) for number in closed
    )


def test_dedup_lets_each_order_through_once(ran: dict[str, Any], spark_node: RunningNode) -> None:
    found = documents(spark_node.bootstrap, "p-dedup.once")
    assert sorted(each["order"] for each in found) == [*range(GOOD), 99]


def test_dead_letters_keep_their_bytes_the_reason_and_the_origin(
    ran: dict[str, Any], spark_node: RunningNode
) -> None:
    assert len(documents(spark_node.bootstrap, "p-dead-letters.good")) == GOOD + 5 + 1
    dead = records(spark_node.bootstrap, "p-dead-letters.dead")
    assert sorted(each.value or b"" for each in dead) == [b"broken", b'{"order": "many"}']
    for each in dead:
        headers = dict(each.headers)
        assert b"not JSON of this schema" in (headers["error"] or b"")
        assert (headers["origin"] or b"").startswith(b"p-dead-letters:")


def test_quality_checks_reject_by_name(ran: dict[str, Any], spark_node: RunningNode) -> None:
    assert len(documents(spark_node.bootstrap, "p-quality.passed")) == GOOD + 5
    rejected = records(spark_node.bootstrap, "p-quality.rejected")
    failed = Counter(dict(each.headers)["failed"] for each in rejected)
    assert failed == {b"is readable, has order, has city": 2, b"has city": 1}


def test_a_pipeline_ends_with_its_java_when_told_to(
    spark_node: RunningNode, tmp_path: Path
) -> None:
    send_orders(spark_node.bootstrap, "p-ended")
    create(tmp_path / "ended", "sql", topic="p-ended")
    command = [sys.executable, "-m", "tidelog", "spark", "pipeline", "run", str(tmp_path / "ended")]
    process = subprocess.Popen(
        [*command, "--bootstrap", spark_node.bootstrap],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: java_of(process.pid), "the pipeline's Java")
        java = java_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) != 0
        eventually(lambda: not any(map(is_running, java)), "the end of its Java")
    finally:
        process.kill()
        process.wait()


def java_of(parent: int) -> list[int]:
    """The Java processes below that one."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                text = (each / "stat").read_text()
            except OSError:
                continue
            name, _, rest = text.partition("(")[2].rpartition(")")
            names[int(each.name)] = name
            children.setdefault(int(rest.split()[1]), []).append(int(each.name))
    waiting, found = [parent], []
    while waiting:
        for child in children.get(waiting.pop(), []):
            waiting.append(child)
            found.append(child)
    return [each for each in found if names[each] == "java"]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def complaint(bootstrap: str, directory: Path, definition: str) -> str:
    """What `pipeline run --dry-run` says of a pipeline with that definition: one line."""
    create(directory, "sql", topic="p-sql")
    (directory / "transformations" / "transform.sql").write_text(definition)
    command = [sys.executable, "-m", "tidelog", "spark", "pipeline", "run", str(directory)]
    done = subprocess.run(
        [*command, "--dry-run", "--bootstrap", bootstrap], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_mistake_in_a_definition_is_one_line(spark_node: RunningNode, tmp_path: Path) -> None:
    wrong = "CREATE STREAMING TABLE p_sql_out AS SELECT 1 FROM STREAM(nowhere);"
    said = complaint(spark_node.bootstrap, tmp_path / "wrong", wrong)
    assert "nowhere" in said
    assert "p_sql_out" not in said, "what only reads from the flow that failed is not the cause"


def test_two_mistakes_are_both_told(spark_node: RunningNode, tmp_path: Path) -> None:
    wrong = "CREATE STREAMING TABLE x AS SELECT 1 FROM STREAM(nowhere);"
    said = complaint(spark_node.bootstrap, tmp_path / "wrong", wrong)
    assert "nowhere" in said
    assert "p_sql_out" in said


def test_a_template_takes_its_fields_from_the_topics_records(
    spark_node: RunningNode, tidelog: CommandLine, tmp_path: Path
) -> None:
    with Producer(spark_node.bootstrap) as producer:
        producer.send("p-fields", '{"id": 1, "who": "ann", "when": "2026-01-01T10:00:00Z"}')
    made = tidelog(
        *("spark", "pipeline", "init", str(tmp_path / "mine"), "--topic", "p-fields", "--json"),
        *("--bootstrap", spark_node.bootstrap),
    )
    assert made.json["fields"] == {"id": "bigint", "who": "string", "when": "timestamp"}
    again = tidelog("spark", "pipeline", "init", str(tmp_path / "mine"))
    assert again.code == 1
    assert "exists already" in again.errors

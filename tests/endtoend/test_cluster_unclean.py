"""An unclean election among a replica that has all records and one whose directory was wiped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.shell import Shell

from tidelog.cli.cluster_process import ClusterProcess
from tidelog.client import Admin, Consumer, Producer

TOPIC, AUTOMATIC = "orders", "clicks"
RECORDS = 500


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ExitStack() as stack:
        yield stack.enter_context(ClusterProcess(tmp_path, count=3))


def test_the_full_replica_leads_and_not_the_wiped_one(
    tidelog: CommandLine, cluster: ClusterProcess
) -> None:
    at = ("--bootstrap", cluster.bootstrap)
    admin = Admin(cluster.bootstrap)
    full, wiped = (2, 3)
    create_on(cluster, wiped, full)
    write(cluster, RECORDS)
    wipe_the_last_in_sync(cluster, full, wiped)
    dry = tidelog("cluster", "elect", "--unclean", "--dry-run", "--json", *at).json
    assert [(row["topic"], row["would_lead"], row["new_leader"]) for row in dry["partitions"]] == [
        (AUTOMATIC, full, None),
        (TOPIC, full, None),
    ]
    ends = {each["node"]: each["end_offset"] for each in dry["partitions"][1]["replicas"]}
    assert ends == {full: RECORDS, wiped: 0}
    refused = tidelog("cluster", "elect", "--unclean", *at)
    assert (refused.code, "--yes" in refused.errors) == (1, True)
    assert f"node {full} would lead" in refused.output
    assert not admin.topic(TOPIC).partitions[0].is_led
    elect = ("cluster", "elect", "--unclean", "--topic", TOPIC, "--yes", "--json", *at)
    elected = tidelog(*elect).json["partitions"]
    assert [(row["new_leader"], row["error"]) for row in elected] == [(full, None)]
    assert read(cluster, TOPIC) == list(range(RECORDS))
    admin.alter_settings(AUTOMATIC, {"unclean.leader.election.enable": "true"})
    eventually(lambda: admin.topic(AUTOMATIC).partitions[0].is_led, "an automatic election")
    assert admin.topic(AUTOMATIC).partitions[0].leader == full
    assert read(cluster, AUTOMATIC) == list(range(RECORDS))


def test_where_everything_has_a_leader_there_is_nothing_to_elect_uncleanly(shell: Shell) -> None:
    shell("topic", "create", TOPIC)
    for extra in ((), ("--yes",), ("--dry-run",), ("--topic", TOPIC)):
        told = shell("cluster", "elect", "--unclean", *extra)
        assert (told.code, told.errors) == (0, "")
        assert told.output == "Every partition has a leader: there is nothing to elect uncleanly.\n"
    as_json = shell("cluster", "elect", "--unclean", "--json").json
    assert as_json == {"dry_run": False, "unclean": True, "partitions": []}


def create_on(cluster: ClusterProcess, *nodes: int) -> None:
    """One partition each, whose replicas are on these nodes."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = [
        NewTopic(name, 1, replica_assignment=[list(nodes)], config={"min.insync.replicas": "1"})
        for name in (TOPIC, AUTOMATIC)
    ]
    for created in admin.create_topics(new).values():
        created.result(60)


def write(cluster: ClusterProcess, count: int) -> None:
    with Producer(cluster.bootstrap) as producer:
        for number in range(count):
            producer.send(TOPIC, b"%d" % number)
            producer.send(AUTOMATIC, b"%d" % number)


def read(cluster: ClusterProcess, topic: str) -> list[int]:
    with Consumer(topic, until_end=True, bootstrap=cluster.bootstrap) as consumer:
        return [int(message.value or b"") for message in consumer]


def wipe_the_last_in_sync(cluster: ClusterProcess, full: int, wiped: int) -> None:
    """The one goes with all records, and is out of sync; the other goes last, and comes back with
    an empty directory."""
    admin = Admin(cluster.bootstrap)
    assert cluster.nodes[full].stop() == 0
    eventually(lambda: admin.topic(TOPIC).partitions[0].in_sync == (wiped,), "one in sync")
    write(cluster, 3)
    assert cluster.nodes[wiped].stop() == 0
    shutil.rmtree(cluster.nodes[wiped].data_dir)
    for node_id in (wiped, full):
        cluster.nodes[node_id].restart(waits=False)
    for node_id in (wiped, full):
        cluster.nodes[node_id].wait_ready()

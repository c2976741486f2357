"""`tidelog demo cluster`: three real nodes, and the one that leads is killed with -9.

A producer writes orders all the time. What is shown is the gap: how long nothing was acknowledged
until another node led. Then the dead node comes back, and every order is read and counted.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tidelog.cli.cluster_process import ClusterProcess
from tidelog.cli.demo_log import READ_TIMEOUT_S
from tidelog.cli.demo_story import Story
from tidelog.cli.failure import CommandFailed
from tidelog.cli.output import progress
from tidelog.client import Admin, Connection, Producer, Reader
from tidelog.client.admin import Partition

TOPIC = "orders"
NODES = 3
BEFORE_S = 1.0
AFTER_S = 1.0
PAUSE_S = 0.002
PATIENCE_S = 60.0


class Traffic:
    """Orders one after the other, as fast as a shop might, and when the last was acknowledged."""

    def __init__(self, connection: Connection) -> None:
        self._producer = Producer(connection)
        self._acknowledged = 0
        self._last_ack = time.monotonic()
        self.sent = 0
        self.longest_gap_s = 0.0

    @property
    def acknowledged(self) -> int:
        return self._producer.deliveries.acknowledged

    def send_while(self, is_wanted: Callable[[], bool]) -> None:
        """`is_wanted` is asked before each order."""
        while is_wanted():
            self._producer.send(TOPIC, json.dumps({"order": self.sent}).encode())
            self.sent += 1
            time.sleep(PAUSE_S)
            self._look()

    def finish(self) -> None:
        """Until every order is acknowledged."""
        self._producer.flush(on_wait=self._look)
        deliveries = self._producer.deliveries
        if deliveries.first_error is not None:
            raise CommandFailed(
                f"{deliveries.failed:,} orders were refused: {deliveries.first_error}"
            )

    def _look(self) -> None:
        now = time.monotonic()
        if self.acknowledged > self._acknowledged:
            self._acknowledged = self.acknowledged
            self.longest_gap_s = max(self.longest_gap_s, now - self._last_ack)
            self._last_ack = now


def run(story: Story) -> None:
    """The whole part; `CommandFailed` if an acknowledged order is lost or there twice."""
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory,
        ClusterProcess(Path(directory), count=NODES) as cluster,
    ):
        story.tell(f"{NODES} nodes are ready at {cluster.bootstrap}")
        connection = Connection(cluster.bootstrap)
        admin = Admin(connection)
        admin.create_topic(
            TOPIC, partitions=1, replication_factor=NODES, settings={"min.insync.replicas": "2"}
        )
        traffic = Traffic(connection)
        _fail_over(cluster, admin, traffic, story)
        traffic.finish()
        seen = _read_back(connection)
        story.tell(f"{seen.total():,} orders read back, {traffic.acknowledged:,} acknowledged")
    lost = traffic.acknowledged - len(seen)
    doubled = sum(times > 1 for times in seen.values())
    if lost or doubled or len(seen) != traffic.sent:
        raise CommandFailed(f"{lost:,} orders lost, {doubled:,} seen more than once")
    story.console.print()
    story.conclude(
        f"{traffic.acknowledged:,} orders acknowledged, {seen.total():,} read: 0 lost, 0 doubled; "
        f"the leader was killed, and the gap was {traffic.longest_gap_s:.1f} s."
    )


def _fail_over(cluster: ClusterProcess, admin: Admin, traffic: Traffic, story: Story) -> None:
    deadline = time.monotonic() + PATIENCE_S
    traffic.send_while(lambda: not traffic.acknowledged and time.monotonic() < deadline)
    traffic.send_while(_for(BEFORE_S))
    leader = _partition(admin).leader
    traffic.longest_gap_s = 0.0
    before = traffic.acknowledged
    on_the_way = traffic.sent - before
    cluster.nodes[leader].kill()
    story.tell(
        f"kill -9 of node {leader}, which led: {before:,} orders acknowledged, "
        f"{on_the_way:,} on their way"
    )
    deadline = time.monotonic() + PATIENCE_S
    traffic.send_while(
        lambda: traffic.acknowledged <= before + on_the_way and time.monotonic() < deadline
    )
    story.tell(
        f"node {_partition(admin).leader} leads: for {traffic.longest_gap_s:.1f} s nothing was "
        "acknowledged"
    )
    cluster.nodes[leader].restart(waits=False)
    traffic.send_while(_for(AFTER_S))
    cluster.nodes[leader].wait_ready()
    _wait_in_sync(admin)
    story.tell(f"node {leader} is back and has caught up: {NODES} copies in sync")


def _for(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _partition(admin: Admin) -> Partition:
    return admin.topic(TOPIC).partitions[0]


def _wait_in_sync(admin: Admin) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(_partition(admin).in_sync) < NODES:
        if time.monotonic() > deadline:
            raise CommandFailed("the node that was killed did not catch up")
        time.sleep(0.1)


def _read_back(connection: Connection) -> Counter[int]:
    """How often each order is in the log."""
    seen: Counter[int] = Counter()
    admin = Admin(connection)
    spans = admin.offsets(admin.topic(TOPIC).topic_partitions)
    reader = Reader(connection, starts={each: span.start for each, span in spans.items()})
    deadline = time.monotonic() + READ_TIMEOUT_S
    with progress(is_counted=False) as bar:
        task = bar.add_task("reading them back", total=None)
        while not reader.is_at_end and time.monotonic() < deadline:
            for record in reader.poll():
                seen[json.loads(record.value or b"")["order"]] += 1
            bar.update(task, completed=seen.total())
    reader.close()
    return seen

"""Three real nodes, real clients on them, and the question at the end: is everything that was
acknowledged there, once, in order, and the same on every node?

A test breaks something in between. `stage` is the fixture; `Stage.play` has the traffic running
while the test's block lasts, and checks at its end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.support.eventually import eventually
from tests.support.group_reader import GroupReader
from tests.support.links import Network
from tests.support.node_process import watched
from tests.support.raw_client import ConnectionLost, RawClient
from tests.support.steady_traffic import SteadyTraffic, check_nothing_lost_or_doubled

from tidelog.cli.cluster_process import free_ports
from tidelog.cli.node_process import NodeProcess
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
)

TOPIC = "orders"
PARTITIONS = 3
COUNT = 3
_ANSWER_S = 5.0
_FEW_GROUPS = ("--set", "offsets.topic.num.partitions=3")


@dataclass
class Stage:
    """`nodes` by id; `network` is what lies between them."""

    data_dir: Path
    arguments: tuple[str, ...] = ()
    nodes: dict[int, NodeProcess] = field(default_factory=dict)
    environments: dict[int, dict[str, str]] = field(default_factory=dict)
    """What a node's process has in its environment beside the usual, from its next start on."""
    directories: dict[int, Path] = field(default_factory=dict)
    """Where nodes keep their data that is not the usual place."""

    # --- starting -----------------------------------------------------------------------------

    def open(self, stack: ExitStack) -> None:
        ids = range(1, COUNT + 1)
        ports = dict(zip(ids, free_ports("127.0.0.1", COUNT), strict=True))
        self.network = Network(ports)
        stack.callback(self.network.close)
        for node_id, port in ports.items():
            with self._environment(node_id):
                node = NodeProcess(
                    self.directories.get(node_id, self.data_dir / f"node-{node_id}"),
                    *("--node-id", str(node_id)),
                    *("--set", f"controller.quorum.voters={self.network.voters_of(node_id)}"),
                    *_FEW_GROUPS,
                    *self.arguments,
                    listen=f"127.0.0.1:{port}",
                    waits=False,
                )
            self.nodes[node_id] = stack.enter_context(watched(node))
        for node in self.nodes.values():
            node.wait_ready()

    def restart(self, node_id: int, *, waits: bool = True) -> None:
        """A node that was stopped or killed comes back."""
        with self._environment(node_id):
            self.nodes[node_id].restart(waits=waits)

    @contextmanager
    def _environment(self, node_id: int) -> Iterator[None]:
        wanted = self.environments.get(node_id, {})
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name in wanted:
                del os.environ[name]

    # --- looking ------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def admin(self) -> AdminClient:
        """Without a word about every connection that a test has cut."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def metadata(self, *, seen_by: int | None = None) -> MetadataResponse:
        """As that node has it, or the first that answers. Asked by hand: librdkafka chooses by
        itself whom it asks, and waits long for one that is frozen."""
        lost: ConnectionLost | None = None
        for node_id in self.nodes if seen_by is None else (seen_by,):
            try:
                with RawClient(self.nodes[node_id]) as client:
                    client.set_timeout(_ANSWER_S)
                    answer: MetadataResponse = client.request(MetadataRequest(topics=None))
                    return answer
            except ConnectionLost as error:
                lost = error
        raise lost or ConnectionLost("there is no node")

    def partitions(
        self, topic: str = TOPIC, *, seen_by: int | None = None
    ) -> dict[int, MetadataResponsePartition]:
        """By number; none of a topic that is not known."""
        return {
            one.partition_index: one
            for each in self.metadata(seen_by=seen_by).topics
            if each.name == topic
            for one in each.partitions
        }

    def create_topic(self, name: str, partitions: int = PARTITIONS) -> None:
        """A copy on each node, two in sync at least."""
        new = NewTopic(name, partitions, COUNT, config={"min.insync.replicas": "2"})
        admin = self.admin()
        admin.create_topics([new], request_timeout=60)[name].result(60)
        self.wait_until_whole(name)

    def leader_of(self, topic: str, partition: int = 0, *, seen_by: int | None = None) -> int:
        """-1 if nobody leads."""
        return self.partitions(topic, seen_by=seen_by)[partition].leader_id

    def acting_leader_of(self, topic: str, partition: int = 0) -> int:
        """The leader, once it knows so itself: the others may hear of an election first, and until
        then it answers NOT_LEADER_OR_FOLLOWER."""
        found: list[int] = []

        def is_acting() -> bool:
            leader = self.leader_of(topic, partition)
            found[:] = [leader]
            return leader >= 0 and self.leader_of(topic, partition, seen_by=leader) == leader

        self._wait(is_acting, f"a leader of {topic}-{partition} that knows it is one")
        return found[0]

    def controller(self, *, seen_by: int | None = None) -> int:
        """A node that does not know names itself: it hands on what is meant for the controller."""
        return self.metadata(seen_by=seen_by).controller_id

    def who_is(self, role: str) -> int:
        """`leader` or `follower` of the first partition, or `controller`."""
        if role == "controller":
            return self.controller()
        return self.leader_of(TOPIC) if role == "leader" else self.follower_of(TOPIC)

    def follower_of(self, topic: str, partition: int = 0) -> int:
        leader = self.leader_of(topic, partition)
        return next(node for node in self.nodes if node != leader)

    def wait_for_other_leader(self, victim: int, topic: str = TOPIC) -> None:
        """As those see it who are not the victim."""
        witness = next(node for node in self.nodes if node != victim)

        def is_led_by_others() -> bool:
            partitions = self.partitions(topic, seen_by=witness).values()
            return bool(partitions) and all(one.leader_id not in (-1, victim) for one in partitions)

        self._wait(is_led_by_others, f"others than node {victim} to lead")

    def wait_until_whole(self, topic: str = TOPIC) -> None:
        """Every partition has a leader and all of its replicas in sync."""

        def is_whole() -> bool:
            partitions = self.partitions(topic).values()
            return bool(partitions) and all(
                len(one.isr_nodes) == COUNT and one.leader_id >= 0 for one in partitions
            )

        self._wait(is_whole, "a full in-sync set")

    def wait_until_out_of_sync(self, victim: int, topic: str = TOPIC) -> None:
        """The others go on without the victim."""
        witness = next(node for node in self.nodes if node != victim)

        def is_out() -> bool:
            partitions = self.partitions(topic, seen_by=witness).values()
            return bool(partitions) and all(victim not in one.isr_nodes for one in partitions)

        self._wait(is_out, f"node {victim} to be out of sync")

    @staticmethod
    def _wait(condition: Callable[[], bool], what: str) -> None:
        def is_so() -> bool:
            try:
                return condition()
            except (ConnectionLost, KeyError):  # nobody to ask, or it does not know the topic yet
                return False

        eventually(is_so, what)

    def partition_directory(self, node_id: int, partition: int = 0, topic: str = TOPIC) -> Path:
        root = self.nodes[node_id].data_dir
        return next(root.glob(f"topics/{topic}.*")) / str(partition)

    # --- playing ------------------------------------------------------------------------------

    @contextmanager
    def play(self) -> Iterator[SteadyTraffic]:
        """Traffic; and at the end the whole truth."""
        with GroupReader(self.bootstrap, TOPIC) as reader:
            with SteadyTraffic(self.bootstrap, TOPIC) as traffic:
                traffic.wait_for_progress()
                yield traffic
                self.wait_until_whole()
                traffic.wait_for_progress()
            self.check(traffic)
            reader.wait_for(traffic.placed)
        assert not reader.contradictions

    def check(self, traffic: SteadyTraffic) -> None:
        """Nothing acknowledged is lost, nothing is there twice, each partition is in the order in
        which it was sent, and the same bytes lie on every node."""
        assert not traffic.errors, traffic.errors[:3]
        found = check_nothing_lost_or_doubled(traffic, self.bootstrap, TOPIC, PARTITIONS)
        for partition in range(PARTITIONS):
            places = sorted((at[0][1], n) for n, at in found.items() if at[0][0] == partition)
            numbers = [number for _, number in places]
            assert numbers == sorted(numbers), f"partition {partition} is out of order"
        self.check_copies()

    def check_copies(self, topic: str = TOPIC, partitions: int = PARTITIONS) -> None:
        for partition in range(partitions):

            def is_equal(number: int = partition) -> bool:
                return len({self._bytes_of(node, number, topic) for node in self.nodes}) == 1

            eventually(is_equal, f"equal copies of {topic}-{partition}")

    def _bytes_of(self, node_id: int, partition: int, topic: str) -> bytes:
        directory = self.partition_directory(node_id, partition, topic)
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    def tell(self) -> None:
        """For the report of a failed test."""
        for node_id, node in self.nodes.items():
            print(f"--- node {node_id}, exit code {node.process.poll()}:\n{node.log[-3000:]}")
        for topic in self.metadata().topics:
            for one in topic.partitions:
                print(f"{topic.name}-{one.partition_index}: {one.leader_id} of {one.isr_nodes}")

    def copy_data(self, node_id: int, target: Path) -> None:
        """Of a node that is down."""
        shutil.copytree(self.nodes[node_id].data_dir, target)

    def wipe_data(self, node_id: int) -> None:
        shutil.rmtree(self.nodes[node_id].data_dir)


@contextmanager
def a_stage(
    data_dir: Path,
    *arguments: str,
    directories: dict[int, Path] | None = None,
    environments: dict[int, dict[str, str]] | None = None,
) -> Iterator[Stage]:
    """Three nodes with the topic on them."""
    with ExitStack() as stack:
        stage = Stage(
            data_dir,
            arguments,
            directories=directories or {},
            environments=environments or {},
        )
        stage.open(stack)
        try:
            stage.create_topic(TOPIC)
            yield stage
        except BaseException:
            stage.tell()
            raise

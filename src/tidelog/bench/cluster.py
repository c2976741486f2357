"""Three servers that are one cluster: Tidelog's, or Apache Kafka's in KRaft combined mode.

They share this machine, so their figures are what three copies cost together, not what three
machines would reach.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.bench.admin import (
    CREATE_TOPICS_VERSION,
    METADATA_VERSION,
    Admin,
    WrongAnswer,
    expect_none,
)
from tidelog.bench.kafka import (
    await_kafka,
    format_kafka,
    free_ports,
    server_properties,
    spawn_kafka,
)
from tidelog.bench.servers import Kind, Server, ServerFailed, first_line, node_command, stop
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)

COUNT = 3
LEAST_IN_SYNC = 2
_PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Cluster:
    """Servers by node id. Those of Tidelog can be killed, stopped and started again."""

    kind: Kind
    servers: dict[int, Server]
    commands: dict[int, list[str]] = field(default_factory=dict)
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    log_path: Path = Path()

    @property
    def bootstrap(self) -> str:
        return ",".join(server.bootstrap for server in self.servers.values())

    def spawn(self, node_id: int) -> None:
        with self.log_path.open("ab") as log:
            command = self.commands[node_id]
            self.processes[node_id] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)

    def restart(self, node_id: int) -> None:
        """A node that has ended comes back, on its port."""
        self.spawn(node_id)
        first_line(self.processes[node_id], self.log_path)

    def end(self, node_id: int, number: signal.Signals) -> None:
        """By its process id, and wait until it is gone."""
        process = self.processes[node_id]
        os.kill(process.pid, number)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def create_topic(self, name: str, *, partitions: int, settings: Mapping[str, str]) -> None:
        """A copy of everything on each server; returns when all are in sync."""
        configs = [CreatableTopicConfig(name=key, value=text) for key, text in settings.items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=COUNT, configs=configs
        )
        with self._admin() as admin:
            answer = admin.ask(CreateTopicsRequest(topics=[topic]), CREATE_TOPICS_VERSION)
        expect_none(answer.topics[0].error_code, f"creating topic {name}")
        self.await_whole(name)

    def await_whole(self, topic: str) -> list[MetadataResponsePartition]:
        """Until every partition has a leader and all copies in sync; gives the partitions."""
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError, WrongAnswer):
                found = self._partitions(topic)
                if found and all(p.leader_id >= 0 and len(p.isr_nodes) == COUNT for p in found):
                    return found
            time.sleep(0.05)
        raise ServerFailed(f"the copies of {topic} did not come together")

    def leader_of(self, topic: str) -> int:
        return self.await_whole(topic)[0].leader_id

    def _partitions(self, topic: str) -> list[MetadataResponsePartition]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        with self._admin() as admin:
            found: list[MetadataResponsePartition] = (
                admin.ask(request, METADATA_VERSION).topics[0].partitions
            )
        return sorted(found, key=lambda each: each.partition_index)

    def _admin(self) -> Admin:
        """To the first that answers."""
        for server in self.servers.values():
            with contextlib.suppress(OSError):
                return Admin(server.host, server.port)
        raise ServerFailed("no server of the cluster answers")


@contextlib.contextmanager
def running_nodes(directory: Path, *, is_flushed: bool) -> Iterator[Cluster]:
    """Three nodes of Tidelog, started together, since none is ready without a majority."""
    ports = dict(enumerate(free_ports(COUNT), start=1))
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())
    settings = {"controller.quorum.voters": voters, "min.insync.replicas": str(LEAST_IN_SYNC)}
    cluster = Cluster("node", {}, log_path=directory / "nodes.stderr")
    try:
        for node_id, port in ports.items():
            command = node_command(
                directory / f"node-{node_id}", is_flushed=is_flushed, settings=settings, port=port
            )
            cluster.commands[node_id] = [*command, "--node-id", str(node_id)]
            cluster.spawn(node_id)
        for node_id, port in ports.items():
            process = cluster.processes[node_id]
            first_line(process, cluster.log_path)
            cluster.servers[node_id] = Server("node", "127.0.0.1", port, process.pid)
        yield cluster
    finally:
        for process in cluster.processes.values():
            stop(process)


@contextlib.contextmanager
def running_kafkas(installation: Path, directory: Path) -> Iterator[Cluster]:
    """Three of Apache Kafka, each broker and controller."""
    ports = free_ports(2 * COUNT)
    controllers = dict(enumerate(ports[COUNT:], start=1))
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    cluster = Cluster("kafka", {})
    with contextlib.ExitStack() as stack:
        for node_id, port in enumerate(ports[:COUNT], start=1):
            data_dir = directory / f"kafka-{node_id}"
            data_dir.mkdir()
            properties = data_dir / "server.properties"
            properties.write_text(
                server_properties(data_dir, port=port, node_id=node_id, controllers=controllers)
            )
            format_kafka(installation, data_dir, cluster_id)
            process = spawn_kafka(installation, data_dir)
            stack.callback(_end_kafka, process)
            cluster.processes[node_id] = process
            cluster.servers[node_id] = Server("kafka", "127.0.0.1", port, process.pid)
        for node_id, server in cluster.servers.items():
            log_path = directory / f"kafka-{node_id}" / "kafka.log"
            await_kafka(cluster.processes[node_id], server.port, log_path, brokers=COUNT)
        yield cluster


def _end_kafka(process: subprocess.Popen[bytes]) -> None:
    """Without asking: those asked last would wait for a majority that is gone already, and nobody
    needs what they have."""
    process.kill()
    process.wait()

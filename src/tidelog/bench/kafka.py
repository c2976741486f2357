"""An Apache Kafka to compare with: one KRaft node from an installation the user points to.

The directory needs `libs/*.jar`, as an unpacked Kafka 4 release has. The node gets the heap and
collector flags of Kafka's own start script, Kafka's defaults for everything that matters to
speed, and a data directory of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidelog.bench.admin import METADATA_VERSION, Admin, WrongAnswer
from tidelog.bench.servers import READY_SECONDS, Server, ServerFailed, last_words, stop
from tidelog.wire.messages.metadata import MetadataRequest

_JVM_FLAGS = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
)


def find_java() -> str:
    """The `java` of JAVA_HOME, else of the path."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise ServerFailed("--kafka needs a Java runtime: install one or set JAVA_HOME")
    return java


def server_properties(
    data_dir: Path, *, port: int, controllers: Mapping[int, int], node_id: int = 1
) -> str:
    """A node that is broker and controller, on loopback. `controllers` are the ports of all of
    them, by node id."""
    voters = ",".join(f"{each}@127.0.0.1:{at}" for each, at in controllers.items())
    copies = len(controllers)
    listener = f"CONTROLLER://127.0.0.1:{controllers[node_id]}"
    return "\n".join(
        (
            "process.roles=broker,controller",
            f"node.id={node_id}",
            f"controller.quorum.voters={voters}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},{listener}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            f"log.dirs={data_dir / 'logs'}",
            f"offsets.topic.replication.factor={copies}",
            f"transaction.state.log.replication.factor={copies}",
            "transaction.state.log.min.isr=1",
            "auto.create.topics.enable=false",
            "log.segment.delete.delay.ms=500",
            "",
        )
    )


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [sock.getsockname()[1] for sock in sockets]


@contextlib.contextmanager
def running_kafka(installation: Path, data_dir: Path) -> Iterator[Server]:
    """Format, start, wait until it answers; stopped by its process id at the end."""
    port, controller_port = free_ports(2)
    properties = data_dir / "server.properties"
    properties.write_text(server_properties(data_dir, port=port, controllers={1: controller_port}))
    format_kafka(
        installation, data_dir, urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    )
    started_at = time.monotonic()
    process = spawn_kafka(installation, data_dir)
    try:
        await_kafka(process, port, data_dir / "kafka.log")
        seconds = time.monotonic() - started_at
        yield Server("kafka", "127.0.0.1", port, process.pid, seconds, data_dir)
    finally:
        stop(process)


def format_kafka(installation: Path, data_dir: Path, cluster_id: str) -> None:
    """Prepare the directory that `server.properties` in `data_dir` names."""
    if not list((installation / "libs").glob("kafka_*.jar")):
        raise ServerFailed(f"{installation} has no libs/kafka_*.jar: not a Kafka installation")
    log_path = data_dir / "kafka.log"
    command = [find_java(), "-cp", f"{installation / 'libs'}/*", "kafka.tools.StorageTool"]
    command += ["format", "-t", cluster_id, "-c", str(data_dir / "server.properties")]
    with log_path.open("wb") as log:
        if subprocess.call(command, stdout=log, stderr=log):
            raise ServerFailed(f"Kafka's storage format failed: {last_words(log_path)}")


def spawn_kafka(installation: Path, data_dir: Path) -> subprocess.Popen[bytes]:
    command = [find_java(), *_JVM_FLAGS, "-cp", f"{installation / 'libs'}/*", "kafka.Kafka"]
    with (data_dir / "kafka.log").open("ab") as log:
        return subprocess.Popen(
            [*command, str(data_dir / "server.properties")], stdout=log, stderr=log
        )


def await_kafka(
    process: subprocess.Popen[bytes], port: int, log_path: Path, *, brokers: int = 1
) -> None:
    """Until it answers, and knows of so many brokers."""
    give_up = time.monotonic() + READY_SECONDS
    while time.monotonic() < give_up and process.poll() is None:
        try:
            with Admin("127.0.0.1", port) as admin:
                known = admin.ask(MetadataRequest(topics=[]), METADATA_VERSION).brokers
                if len(known) >= brokers:
                    return
        except (OSError, WrongAnswer):
            pass
        time.sleep(0.02)
    raise ServerFailed(f"Kafka did not become ready: {last_words(log_path)}")

"""The command line with a node's address already given, and consumers to look at with it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
from tests.support.command_line import CommandLine, Outcome
from tests.support.eventually import check_time
from tests.support.node_process import RunningNode

PATIENCE_S = 120.0
"""Longer than anything here takes, even on a busy machine."""


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Shell:
    """`shell("topic", "list")` runs a command against the node."""

    def __init__(self, tidelog: CommandLine, node: RunningNode, directory: Path) -> None:
        self.node = node
        self._tidelog = tidelog
        self._file = directory / "input"

    def __call__(self, *arguments: str) -> Outcome:
        return self._tidelog(*arguments, "--bootstrap", self.node.bootstrap)

    def produce(self, lines: bytes, *arguments: str) -> Outcome:
        self._file.write_bytes(lines)
        return self("produce", *arguments, "--file", str(self._file))

    def values(self, *arguments: str) -> list[str]:
        return self("consume", *arguments, "--exit-at-end").output.splitlines()

    def process(self, *arguments: str) -> subprocess.Popen[bytes]:
        """The same in a process of its own, which Ctrl-C reaches: a shell lets what it runs in the
        background ignore it, and what runs these tests may itself have been started so."""
        return subprocess.Popen(
            [sys.executable, "-m", "tidelog", *arguments, "--bootstrap", self.node.bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_heed_interrupts,
        )

    @contextmanager
    def member(
        self, group: str, *topics: str, protocol: str = "classic", **options: str
    ) -> Iterator[confluent_kafka.Consumer]:
        """A live member of the group, which commits only what it is told to. See `settle`."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.node.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )
        try:
            consumer.subscribe(list(topics))
            yield consumer
        finally:
            consumer.close()

    def commit(self, group: str, topic: str, **offsets: int) -> None:
        """What a group that is gone has left: `commit("billing", "orders", p0=5)`."""
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.node.bootstrap, "group.id": group}
        )
        self.commit_as(consumer, topic, **offsets)
        consumer.close()

    def commit_as(self, consumer: confluent_kafka.Consumer, topic: str, **offsets: int) -> None:
        """The same by a member that lives."""
        places = [
            confluent_kafka.TopicPartition(topic, int(name.removeprefix("p")), offset)
            for name, offset in offsets.items()
        ]
        consumer.commit(offsets=places, asynchronous=False)


def settle(*members: confluent_kafka.Consumer) -> None:
    """Until each of them owns something; a rebalance needs all of them to take part."""

    def have_partitions() -> bool:
        for member in members:
            member.poll(0.05)
        return all(member.assignment() for member in members)

    until(have_partitions)


def until(holds: Callable[[], bool]) -> None:
    """Ask again and again: whatever is asked takes its own time to answer."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        check_time(deadline, "it never came true")

"""One member of a group, whichever client it is: in a thread, or in a process that can be killed.

A member polls without end, notes what it read and which partitions it owns, and commits as its
client does by itself. `python -m tests.compat.clients.members` is the same member as a process that
prints what it sees, so that it can be stopped (SIGSTOP) or killed without a word to the node.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import aiokafka
import aiokafka.abc
import kafka
from confluent_kafka import Consumer, KafkaException
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from tests.compat.clients.confluent import QUIET
from tests.compat.clients.message import PATIENCE_S, Deadline
from tests.support.eventually import RanOutOfTime

ROOT = Path(__file__).resolve().parents[3]
PROTOCOLS: dict[str, dict[str, str]] = {
    "confluent-eager": {"partition.assignment.strategy": "range"},
    "confluent-cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "confluent-consumer": {"group.protocol": "consumer"},
}
ASSIGNORS: dict[str, tuple[type, ...]] = {
    "kafka-python": (RangePartitionAssignor, RoundRobinPartitionAssignor),
    "kafka-python-cooperative": (CooperativeStickyAssignor,),
}
KINDS = (*PROTOCOLS, "aiokafka", "kafka-python", "kafka-python-cooperative")
"""Every client, with every protocol that it speaks."""


class Owned(NamedTuple):
    topic: str
    partition: int


class Read(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str


class Driver(Protocol):
    """One client's consumer, called from one thread only."""

    rebalances: int
    """How often partitions, perhaps none, were given to it."""

    def poll(self) -> list[Read]: ...
    def owned(self) -> frozenset[Owned]: ...
    def close(self) -> None: ...


class Plan(NamedTuple):
    """Who joins what."""

    kind: str
    bootstrap: str
    group: str
    topics: tuple[str, ...]
    """A single one that begins with `^` is a regular expression."""
    instance: str | None = None
    session_timeout_ms: int = 30_000

    @property
    def pattern(self) -> str | None:
        return self.topics[0] if self.topics[0].startswith("^") else None

    @property
    def common(self) -> dict[str, Any]:
        """The settings that aiokafka and kafka-python share, names and all."""
        return {
            "bootstrap_servers": self.bootstrap,
            "group_id": self.group,
            "group_instance_id": self.instance,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": 200,
            "metadata_max_age_ms": 500,
        }


def drive(plan: Plan) -> Driver:
    if plan.kind == "aiokafka":
        return AioDriver(plan)
    if plan.kind in ASSIGNORS:
        return KafkaPythonDriver(plan)
    return ConfluentDriver(plan)


class ConfluentDriver:
    def __init__(self, plan: Plan) -> None:
        self.rebalances = 0
        options: dict[str, Any] = {**QUIET, **PROTOCOLS[plan.kind]}
        if "group.protocol" not in options:
            options["session.timeout.ms"] = plan.session_timeout_ms
            options["heartbeat.interval.ms"] = 200
        if plan.instance is not None:
            options["group.instance.id"] = plan.instance
        self._consumer = Consumer(
            {
                "bootstrap.servers": plan.bootstrap,
                "group.id": plan.group,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,
                **options,
            }
        )
        self._consumer.subscribe(list(plan.topics), on_assign=self._on_assign)

    def _on_assign(self, *_: object) -> None:
        self.rebalances += 1

    def poll(self) -> list[Read]:
        found: list[Read] = []
        polled: list[Any] = self._consumer.consume(500, timeout=0.1)
        for raw in polled:
            error = raw.error()
            if error is not None:
                raise KafkaException(error)
            found.append(Read(raw.topic(), raw.partition(), raw.offset(), raw.value().decode()))
        return found

    def owned(self) -> frozenset[Owned]:
        return frozenset(Owned(each.topic, each.partition) for each in self._consumer.assignment())

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonDriver(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, plan: Plan) -> None:
        self.rebalances = 0
        assignors = ASSIGNORS[plan.kind]
        self._consumer = kafka.KafkaConsumer(**plan.common, partition_assignment_strategy=assignors)
        if plan.pattern is None:
            self._wait_for_metadata(plan.topics)
            self._consumer.subscribe(topics=list(plan.topics), listener=self)
        else:
            self._consumer.subscribe(pattern=plan.pattern, listener=self)

    def _wait_for_metadata(self, topics: Sequence[str]) -> None:
        """A leader that does not know the topic's partitions yet would assign none of them."""
        deadline = Deadline("the metadata of the topics")
        while not all(self._consumer.partitions_for_topic(topic) for topic in topics):
            deadline.check(topics)

    def on_partitions_assigned(self, assigned: object) -> None:
        self.rebalances += 1

    def on_partitions_revoked(self, revoked: object) -> None:
        """Nothing: what was read is committed by the client before it gives partitions back."""

    def poll(self) -> list[Read]:
        return _reads(self._consumer.poll(timeout_ms=100))

    def owned(self) -> frozenset[Owned]:
        return frozenset(Owned(each.topic, each.partition) for each in self._consumer.assignment())

    def close(self) -> None:
        self._consumer.close()


class AioDriver(aiokafka.abc.ConsumerRebalanceListener):  # type: ignore[misc]
    """Its event loop runs while it polls, which is all the time."""

    def __init__(self, plan: Plan) -> None:
        self.rebalances = 0
        self._runner = asyncio.Runner()
        self._runner.run(self._start(plan))

    async def _start(self, plan: Plan) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(**plan.common)
        await self._consumer.start()
        if plan.pattern is None:
            self._consumer.subscribe(topics=list(plan.topics), listener=self)
        else:
            self._consumer.subscribe(pattern=plan.pattern, listener=self)

    async def on_partitions_assigned(self, assigned: object) -> None:
        self.rebalances += 1

    async def on_partitions_revoked(self, revoked: object) -> None:
        """Nothing: what was read is committed by the client before it gives partitions back."""

    def poll(self) -> list[Read]:
        return _reads(self._runner.run(self._consumer.getmany(timeout_ms=100)))

    def owned(self) -> frozenset[Owned]:
        return frozenset(Owned(each.topic, each.partition) for each in self._consumer.assignment())

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


def _reads(polled: Mapping[Any, Iterable[Any]]) -> list[Read]:
    return [
        Read(each.topic, each.partition, each.offset, each.value.decode())
        for records in polled.values()
        for each in records
    ]


class Member:
    """Polls in a thread of its own until it leaves. What it read stays after that."""

    def __init__(self, plan: Plan, changed: threading.Condition) -> None:
        self.plan = plan
        self.read: list[Read] = []
        self.owned: frozenset[Owned] = frozenset()
        self.rebalances = 0
        self._changed = changed
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            raise RanOutOfTime(f"{self.plan.kind} does not end")
        self.check()

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            driver = drive(self.plan)
            try:
                while not self._is_over.is_set():
                    self._note(driver, driver.poll())
            finally:
                driver.close()
        except BaseException as failure:
            self._failure = failure
        self._note(None, [])

    def _note(self, driver: Driver | None, found: list[Read]) -> None:
        owned = frozenset() if driver is None else driver.owned()
        with self._changed:
            self.read += found
            self.owned = owned
            self.rebalances = self.rebalances if driver is None else driver.rebalances
            self._changed.notify_all()


class MemberProcess:
    """The same in a process of its own: it can be stopped, and killed without leaving."""

    def __init__(self, plan: Plan, changed: threading.Condition) -> None:
        self.plan = plan
        self.read: list[Read] = []
        self.owned: frozenset[Owned] = frozenset()
        self.rebalances = 0
        self._changed = changed
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.compat.clients.members", json.dumps(plan)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """Without a word: the process is killed."""
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)
        self.owned = frozenset()

    def check(self) -> None:
        assert self._process.poll() in (None, -signal.SIGKILL), f"{self.plan.kind} has ended"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            seen = json.loads(line)
            with self._changed:
                self.read += [Read(*each) for each in seen["read"]]
                self.owned = frozenset(Owned(*each) for each in seen["owned"])
                self.rebalances = seen["rebalances"]
                self._changed.notify_all()
        self._process.stdout.close()


class Group:
    """Members of one group, and the wait until they are as a test wants them."""

    def __init__(self, bootstrap: str, name: str, topics: Sequence[str]) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.topics = tuple(topics)
        self.members: list[Member | MemberProcess] = []
        self._changed = threading.Condition()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.leave()

    def join(self, kind: str, **details: Any) -> Member:
        member = Member(self._plan(kind, details), self._changed)
        self.members.append(member)
        return member

    def join_as_process(self, kind: str, **details: Any) -> MemberProcess:
        member = MemberProcess(self._plan(kind, details), self._changed)
        self.members.append(member)
        return member

    def _plan(self, kind: str, details: Mapping[str, Any]) -> Plan:
        return Plan(kind, self.bootstrap, self.name, self.topics, **details)

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = Deadline(f"group {self.name}")
        with self._changed:
            while not is_so():
                deadline.check([(each.plan.kind, sorted(each.owned)) for each in self.members])
                for member in self.members:
                    member.check()
                self._changed.wait(0.5)

    def shares(self, count: int, *members: Member | MemberProcess) -> None:
        """Wait until these members own `count` partitions, each exactly one of them, fairly."""
        least = count // len(members)

        def is_shared() -> bool:
            sizes = [len(each.owned) for each in members]
            union = frozenset[Owned]().union(*(each.owned for each in members))
            return sum(sizes) == count == len(union) and min(sizes) >= least

        self.until(is_shared)

    def has_read(self, values: Iterable[str]) -> None:
        """Wait until everything was read by somebody; nothing may have been read twice."""
        expected = sorted(values)
        self.until(lambda: sum(len(each.read) for each in self.members) >= len(expected))
        assert sorted(self.values()) == expected, self._readers_of_doubled()

    def has_read_at_least(self, values: Iterable[str]) -> None:
        """Wait until everything was read by somebody, perhaps by two."""
        expected = frozenset(values)
        self.until(lambda: expected <= frozenset(self.values()))

    def values(self) -> list[str]:
        return [read.value for member in self.members for read in member.read]

    def _readers_of_doubled(self) -> list[tuple[int, Read]]:
        """Each with the number of the member."""
        counts = Counter(self.values())
        return [
            (number, read)
            for number, member in enumerate(self.members)
            for read in member.read
            if counts[read.value] > 1
        ]


def main(text: str) -> None:
    """A member that prints what it sees, one JSON object per line, until it is killed."""
    fields = json.loads(text)
    fields[3] = tuple(fields[3])
    driver = drive(Plan(*fields))
    shown: object = None
    while True:
        read = driver.poll()
        state = (sorted(driver.owned()), driver.rebalances)
        if read or state != shown:
            shown = state
            line = {"read": read, "owned": state[0], "rebalances": state[1]}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])

"""What the workload knows and shares: topics, versions, the history, and where to send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Client
from tidelog.sim.clock import EPOCH_MS
from tidelog.sim.history import History, Partition
from tidelog.sim.host import Host
from tidelog.sim.network import Network
from tidelog.sim.schedule import Schedule
from tidelog.sim.workload.payload import BatchReader
from tidelog.wire.messages import API_BY_KEY, APIS


@dataclass(slots=True, frozen=True)
class TopicFacts:
    """A topic that exists for certain. `label` is its name in the history: a topic created again
    under an old name is another topic, and has another label."""

    name: str
    label: str
    topic_id: UUID
    partitions: int
    flush_policy: str

    def tps(self) -> list[Partition]:
        return [(self.label, number) for number in range(self.partitions)]


@dataclass(slots=True)
class Damaged:
    """What the simulator has spoiled on purpose: offsets per partition."""

    ranges: dict[Partition, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, tp: Partition, first_offset: int, last_offset: int) -> None:
        self.ranges.setdefault(tp, []).append((first_offset, last_offset))

    def end_of(self, tp: Partition, offset: int) -> int | None:
        """The offset after the damaged batch that holds `offset`; None if it is sound."""
        for first_offset, last_offset in self.ranges.get(tp, []):
            if first_offset <= offset <= last_offset:
                return last_offset + 1
        return None


class World:
    """One per run. Actors read and extend it; nothing in it looks into the node."""

    def __init__(
        self, schedule: Schedule, network: Network, host: Host, *, history: History, random: Random
    ) -> None:
        self.schedule = schedule
        self.network = network
        self.host = host
        self.history = history
        self.random = random
        self.findings: list[Finding] = []
        self.counted: Counter[str] = Counter()
        self.topics: dict[str, TopicFacts] = {}
        """Never deleted, and everybody's."""
        self.first_configs: dict[str, dict[str, str]] = {}
        """What they were created with, by label."""
        self.owned: dict[str, TopicFacts] = {}
        """The present or last life of topics that come and go."""
        self.versions: dict[int, tuple[int, int]] = {
            api.key: (api.min_version, api.max_version) for api in APIS
        }
        self.cleaned: dict[str, TopicFacts] = {}
        """Topics that retention and compaction work on, by name. They have actors of their own."""
        self.groups: list[str] = []
        """Groups whose offsets are read at the end."""
        self.damaged = Damaged()
        self.reader = BatchReader()
        self.is_over = False
        self.creates_on_demand = False
        self.has_lost: set[str] = set()
        self.make_client: Callable[[str, str], Client] | None = None
        """Where there are several nodes: who makes a client of that kind and name."""
        self.coordinators_may_say: tuple[ErrorCode, ...] = ()
        self.leaders_may_say: tuple[ErrorCode, ...] = ()
        """Where there are several nodes: what needs no excuse."""
        self._next_value = 0
        self._clients = 0

    def client(self, kind: str) -> Client:
        self._clients += 1
        name = f"{kind}-{self._clients}"
        if self.make_client is not None:
            return self.make_client(kind, name)
        return Client(
            self.schedule,
            self.network,
            self.host,
            name=name,
            report=self.findings.append,
        )

    def new_value(self) -> int:
        self._next_value += 1
        return self._next_value

    def draw_timestamp(self) -> int:
        """Producers' clocks are not in step: a record may be older than the one before it."""
        return int(EPOCH_MS + self.schedule.now_ms + self.random.gauss(0.0, 200.0))

    def draw_version(self, api_key: int, *, first: int = 0, last: int = 99) -> int:
        low, high = self.versions[api_key]
        return self.random.randint(max(low, first), min(high, last))

    def draw_tp(self) -> tuple[TopicFacts, int]:
        topic = self.topics[self.random.choice(list(self.topics))]
        return topic, self.random.randrange(topic.partitions)

    def expect(
        self, operation: str, error: ErrorCode, allowed: Sequence[ErrorCode], *, about: str
    ) -> None:
        """Count an answer, and report an error that nothing excuses."""
        self.counted[f"{operation}: {error.name}"] += 1
        if error is not ErrorCode.NONE and error not in allowed:
            text = f"{operation} {about} was answered {error.name}, which nothing explains"
            self.findings.append(Finding("answer", text, len(self.history.entries)))

    def write_excuses(self, life: int) -> tuple[ErrorCode, ...]:
        """What a node may say whose disk was, in that life, failing or full."""
        faults = self.host.faults_of(life)
        return (
            *self.leaders_may_say,
            *((ErrorCode.KAFKA_STORAGE_ERROR,) if faults.total() else ()),
        )

    def read_excuses(self, life: int, tp: Partition) -> tuple[ErrorCode, ...]:
        """A read fails where the disk failed to read, or was damaged. A full disk is no excuse,
        except for a topic so new that there may have been no room for its first file."""
        errors: list[ErrorCode] = list(self.leaders_may_say)
        faults = self.host.faults_of(life)
        is_lasting = tp[0] in self.topics or tp[0] in self.cleaned
        if not is_lasting and faults.total():
            errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
        if self.damaged.ranges.get(tp):
            errors.append(ErrorCode.CORRUPT_MESSAGE)
            errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
        if faults["read error"] or life in self.host.troubled_starts:
            errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
        return tuple(errors)

    def coordinator_excuses(self, life: int, *, may_load: bool = True) -> tuple[ErrorCode, ...]:
        """What a coordinator may say whose disk was, in that life, failing or full: it answers
        from what is written, or not at all, and loads that anew once there is room (`may_load`: it
        was asked for a group, not for its name). A node that stops sends those away who wait."""
        if self.coordinators_may_say:
            return self.coordinators_may_say
        if self.host.faults_of(life).total():
            absent = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
            return (*absent, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) if may_load else absent
        is_stopped = life in self.host.stopped_lives
        return (ErrorCode.COORDINATOR_NOT_AVAILABLE,) if is_stopped else ()

    def name_of(self, api_key: int) -> str:
        return API_BY_KEY[api_key].name

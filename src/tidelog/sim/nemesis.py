"""The one who breaks things, and the one who starts the node again.

The nemesis picks a kind of fault from the run's list, every so often. The supervisor restarts a
node that is down: sometimes into trouble, with the power failing again in the middle of recovery or
with a full disk. Whatever the nemesis does to data, it writes into the history.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tidelog.broker.offsets_log import OFFSETS_TOPIC
from tidelog.log.paths import SNAPSHOT
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.storage import check_recovery
from tidelog.sim.cluster import Cluster
from tidelog.sim.configuration import Configuration
from tidelog.sim.host import CrashKind
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.survey import (
    LogBytes,
    flip,
    logs_before_crash,
    partition_directories,
    plant_bytes_behind,
    plant_damage,
    spoil_rebuildable,
    written_logs,
)
from tidelog.sim.wall_clocks import WallClocks
from tidelog.sim.workload.world import TopicFacts

MAX_DAMAGES = 3
LITTERED_SEEDS = 0.3
LITTERED_STARTS = 0.3
METADATA = "metadata"


class Nemesis:
    """Faults of one run, on its one host."""

    def __init__(
        self, cluster: Cluster, configuration: Configuration, wall_clocks: WallClocks
    ) -> None:
        self._cluster = cluster
        self._wall_clocks = wall_clocks
        self._configuration = configuration
        self._host = cluster.host
        self._world = cluster.world
        self._random: Random = cluster.stream("faults")
        self.counted: Counter[str] = Counter()
        self.is_over = False
        self._before_crash: dict[str, LogBytes] = {}
        self._damages = 0
        self._litter = cluster.stream("bytes behind segments")
        self._litters = self._litter.random() < LITTERED_SEEDS
        self.damaged_directories: list[str] = []
        self._without_snapshots: list[str] = []
        self._is_amnesiac = False
        self._unrecovered: dict[str, tuple[bytes, LogBytes]] = {}
        self._host.on_death.append(self._note_death)
        self._host.on_start.append(self._check_start)

    # --- the supervisor --------------------------------------------------------------------------

    def supervise(self) -> Script[None]:
        """Start the node whenever it is down."""
        while not self.is_over:
            if not self._host.is_up:
                yield Pause(self._random.uniform(0.0, 150.0))
                if not self.is_over:
                    self._start()
            yield Pause(20.0)

    def _start(self) -> None:
        faults = self._host.disk.faults
        if self._host.is_up:
            return
        if self._litters and self._litter.random() < LITTERED_STARTS:
            self._plant_bytes([directory for directory, _, _ in self._own_partitions()])
        if self._random.random() < self._configuration.starts_troubled:
            if self._random.random() < 0.7:
                self.counted["start under power failure"] += 1
                faults.changes_left = self._random.randint(0, 40)
            elif "disk full" in self._configuration.faults:
                self.counted["start on a full disk"] += 1
                self._fill_disk(self._random.choice((0, 512, 4_096)), for_ms=200.0)
        is_up = self._host.start()
        if is_up and faults.changes_left is not None and self._random.random() < 0.5:
            faults.changes_left = None

    def _note_death(self, kind: CrashKind | None) -> None:
        """What the disk held at that moment, and which partitions may have lost something.

        A start that failed was no life: what counts is what the last one left.
        """
        if not self._before_crash:
            self._before_crash = logs_before_crash(self._host.disk)
            for directory, (data, earlier) in self._unrecovered.items():
                log = self._before_crash.get(directory)
                if log is not None and log.written == data:
                    self._before_crash[directory] = earlier
            self._unrecovered = {}
        files = self._host.disk.files().values()
        if kind == "power" or any(image.has_dropped_pages for image in files):
            topics = [*self._world.topics.values(), *self._world.owned.values()]
            lossy = [facts for facts in topics if facts.flush_policy == "os"]
            if lossy:
                tps = [tp for facts in lossy for tp in facts.tps()]
                self._cluster.history.add(0, "info", "loss", value=tps)
                self._world.has_lost.update(facts.label for facts in lossy)

    def _check_start(self) -> None:
        """S1, S8: what the start made of the disk.

        A log that the node knew nothing of, or could not open because the disk was failing it,
        need only be there; the latter is judged by the next start that opens it.
        """
        disk, before = self._host.disk, self._before_crash
        directories = partition_directories(disk)
        kept = [directory for directory in before if self._topic_in(directory) is not None]
        after = written_logs(disk)
        if self._is_amnesiac or self._host.lives in self._host.troubled_starts:
            self._unrecovered = {d: (after[d], log) for d, log in before.items() if d in after}
            after = {d: log.written for d, log in before.items() if d in after}
        known = {
            d: log
            for d, log in before.items()
            if (d in directories or d in kept) and not self.is_cleaned(d, log)
        }
        self._world.findings += check_recovery(known, after, expected=kept)
        self._before_crash = {}

    def is_cleaned(self, directory: str, log: LogBytes) -> bool:
        """A log that is cleaned is no prefix of what was written; its readers judge it (C22).

        The offsets topic is compacted as well, once a jump of the wall clock has made segments old
        enough to be closed. Compaction leaves the segment in use alone, so a log of one segment is
        held to S1; of the others the witness is the judge (G4).
        """
        if f"/{OFFSETS_TOPIC}." in directory:
            return log.has_closed_segments
        return any(f"/{name}." in directory for name in self._world.cleaned)

    def _topic_in(self, directory: str) -> TopicFacts | None:
        """The topic, never deleted, that the directory belongs to."""
        parts = directory.split("/")
        name = parts[1].rpartition(".")[0] if len(parts) == 3 else ""
        return self._world.topics.get(name)

    # --- the nemesis -----------------------------------------------------------------------------

    def torment(self) -> Script[None]:
        """One fault after another, until it is over."""
        random, configuration = self._random, self._configuration
        while not self.is_over:
            yield Pause(random.expovariate(1.0 / configuration.fault_every_ms))
            if self.is_over:
                return
            kind = random.choice(configuration.faults)
            self._cluster.trace.say("fault", kind)
            self.counted[kind] += 1
            yield from self._strike(kind)

    def _strike(self, kind: str) -> Script[None]:
        if kind == "power in a flush":
            yield from self._crash_in_flush()
        elif kind in ("read errors", "write errors", "fsync errors"):
            yield from self._fail_disk(kind)
        elif kind == "slow flush":
            self._host.flush_stall_ms = self._random.choice((50.0, 500.0, 3_000.0))
            yield Pause(self._random.uniform(50.0, 500.0))
            self._host.flush_stall_ms = 0.0
        elif kind == "network storm":
            yield from self._storm()
        else:
            self._strike_at_once(kind)

    def _strike_at_once(self, kind: str) -> None:
        host, random = self._host, self._random
        if kind == "kill":
            host.crash("kill")
        elif kind == "power":
            host.crash("power")
        elif kind == "clean stop":
            host.stop()
        elif kind == "power between writes":
            host.disk.faults.changes_left = random.randint(0, 30)
        elif kind == "disk full":
            room = random.choice((0, 100, 1_000, 10_000))
            self._fill_disk(room, for_ms=random.uniform(50.0, 800.0))
        elif kind == "clock jump":
            self._wall_clocks.jump(host, random.choice((-1.0, 1.0)) * random.uniform(0.0, 1e7))
        elif kind == "damage":
            self._damage()
        elif kind == "lost indexes":
            self._spoil_indexes()
        elif kind == "lost metadata":
            self._forget_metadata()
        elif kind == "damaged metadata":
            self._damage_metadata()

    def _crash_in_flush(self) -> Script[None]:
        for _ in range(200):
            if self._host.is_flushing:
                break
            yield Pause(0.3)
        if not self.is_over:
            self._host.crash("power")

    def _fill_disk(self, room: int, *, for_ms: float) -> None:
        disk = self._host.disk
        disk.faults.capacity_bytes = disk.used_bytes() + room

        def free() -> None:
            disk.faults.capacity_bytes = None

        self._cluster.schedule.after(for_ms, free)

    def _fail_disk(self, kind: str) -> Script[None]:
        """A node whose disk has failed a write or an fsync needs a person to restart it."""
        faults = self._host.disk.faults
        rate = self._random.choice((0.02, 0.2, 1.0))
        if kind == "read errors":
            faults.read_error_rate = rate
        elif kind == "write errors":
            faults.write_error_rate = rate
        else:
            faults.sync_error_rate = rate
        yield Pause(self._random.uniform(5.0, 200.0))
        faults.read_error_rate = faults.write_error_rate = faults.sync_error_rate = 0.0
        if kind != "read errors":
            yield Pause(self._random.uniform(0.0, 100.0))
            self._die(self._random.choice(("kill", "power", "stop")))

    def _die(self, how: str) -> None:
        if self.is_over:
            return
        if how == "stop":
            self._host.stop()
        else:
            self._host.crash("power" if how == "power" else "kill")

    def _storm(self) -> Script[None]:
        faults, random = self._cluster.network.faults, self._random
        faults.spike_rate = random.choice((0.0, 0.1, 0.5))
        faults.spike_ms = random.choice((10.0, 200.0))
        faults.reset_rate = random.choice((0.0, 0.05, 0.2))
        faults.hold_rate = random.choice((0.0, 0.02))
        faults.hold_ms = random.choice((100.0, 3_000.0))
        faults.slow_reader_rate = random.choice((0.0, 0.2))
        faults.slow_reader_ms = random.choice((20.0, 1_000.0))
        yield Pause(random.uniform(100.0, 1_000.0))
        faults.heal()

    # --- harm to a node that is down -------------------------------------------------------------

    def _own_partitions(self) -> list[tuple[str, TopicFacts, int]]:
        found = []
        for directory in partition_directories(self._host.disk):
            topic = self._topic_in(directory)
            if topic is not None:
                found.append((directory, topic, int(directory.rpartition("/")[2])))
        return found

    def _damage(self) -> None:
        """Flip a bit in old, flushed data, while nobody has it in memory."""
        if self._damages >= MAX_DAMAGES:
            return
        self._host.crash(self._random.choice(("kill", "power")))
        candidates = self._own_partitions()
        self._random.shuffle(candidates)
        for directory, topic, partition in candidates:
            if directory in self._without_snapshots:
                continue
            planted = plant_damage(self._host.disk, directory, self._random)
            if planted is None:
                continue
            self._damages += 1
            self.damaged_directories.append(directory)
            self.counted["bit flipped"] += 1
            tp = (topic.label, partition)
            offsets = [planted.first_offset, planted.last_offset]
            self._cluster.trace.say(
                "damage", f"{planted.path} byte {planted.position}, offsets {offsets}"
            )
            self._world.damaged.add(tp, planted.first_offset, planted.last_offset)
            self._cluster.history.add(0, "info", "damage", tp=tp, value=offsets)
            log = self._before_crash.get(directory)
            if log is not None:
                flipped = log.flipped(planted.log_position, planted.bit)
                self._before_crash[directory] = flipped
            return

    def _plant_bytes(self, directories: list[str]) -> None:
        """Behind the last batch of closed segments: no record is harmed."""
        for directory in directories:
            planted = plant_bytes_behind(self._host.disk, directory, self._litter)
            if planted is None:
                continue
            self.damaged_directories.append(directory)
            self.counted["bytes behind a segment"] += 1
            text = f"{len(planted.data)} bytes behind {planted.path}"
            self._cluster.trace.say("damage", text)
            log = self._before_crash.get(directory)
            if log is not None:
                longer = log.lengthened(planted.log_position, planted.data)
                self._before_crash[directory] = longer

    def _spoil_indexes(self) -> None:
        self._host.crash(self._random.choice(("kill", "power")))
        for directory, _, _ in self._own_partitions():
            for _ in range(self._random.randint(0, 3)):
                done = spoil_rebuildable(
                    self._host.disk,
                    directory,
                    self._random,
                    has_damage=directory in self.damaged_directories,
                )
                if done is not None:
                    if SNAPSHOT in done:
                        self._without_snapshots.append(directory)
                    self.counted["index or snapshot spoiled"] += 1
                    self._cluster.trace.say("lost", done)

    def _forget_metadata(self) -> None:
        """The metadata goes missing, the node starts without, and then it is found again.

        The node is out of reach meanwhile. Whatever it thinks of directories that it has never
        heard of, it must leave them alone (S8).
        """
        host = self._host
        host.crash(self._random.choice(("kill", "power")))
        before = self._before_crash
        metadata = host.disk.take_away(METADATA)
        self._start_out_of_reach()
        host.disk.put_back(METADATA, metadata)
        self._before_crash = before

    def _damage_metadata(self) -> None:
        """A bit of the metadata log flips, and flips back. In between the node must not start:
        there is no second copy, and a guess would cost topics (S3)."""
        host = self._host
        host.crash(self._random.choice(("kill", "power")))
        before = self._before_crash
        planted = plant_damage(host.disk, METADATA, self._random, only_closed=False)
        if planted is None:
            return
        if self._start_out_of_reach():
            text = f"the node has started, though {planted.path} is damaged at {planted.position}"
            self._world.findings.append(Finding("S3", text))
        flip(host.disk.files()[planted.path], planted.position, planted.bit)
        self._before_crash = before

    def _start_out_of_reach(self) -> bool:
        """A start that no client sees, and its end."""
        host = self._host
        host.is_reachable = False
        self._is_amnesiac = True
        is_up = host.start()
        if is_up:
            host.crash("kill")
        self._is_amnesiac = False
        host.is_reachable = True
        return is_up

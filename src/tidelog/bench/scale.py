"""What metadata costs as clusters grow: CPU on images and one node, without a cluster.

Each figure is the CPU time of one step in milliseconds, the least of a few rounds. What matters is
how it grows: a step may cost as much more as it has more to do, and no more (`Figure.work`).

Python's garbage collector is off meanwhile: a full collection looks at all objects of an image, and
would be found in whichever step it happens to strike.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import log
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tidelog.bench.images import image_of, topic_id
from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effects import SendResponse
from tidelog.broker.events import ConnectionOpened, FrameReceived, Tick
from tidelog.broker.node import Node
from tidelog.controller.node_changes import plan_fencing, plan_shutdown
from tidelog.controller.sessions import Heartbeat, Sessions, decide_heartbeat
from tidelog.metadata.image import Image
from tidelog.metadata.records import PartitionChangeRecord
from tidelog.metadata.snapshot import SnapshotDecoding, SnapshotEncoding
from tidelog.model.clock import Now
from tidelog.model.ids import ConnectionId, NodeId, Offset
from tidelog.model.safeguards import ALL_SAFEGUARDS
from tidelog.model.settings import node_settings, parse_settings
from tidelog.runtime.file_disk import FileDisk
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.requests import encode_request

PARTITIONS_A_TOPIC = 10
_ROUNDS = 5
_NODE = NodeId(2)
_METADATA_VERSION = 12


class Work(Enum):
    """What a step's own work grows with."""

    NOTHING = "nothing"
    KEPT = "partitions of the node"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Figure:
    """A column. `label` is short enough for ten of them in 80 characters."""

    key: str
    label: str
    what: str
    work: Work


FIGURES = (
    Figure("isr", "ISR", "one ISR change replayed into the image", Work.NOTHING),
    Figure("fence", "fence", "fencing a node: the plan and its replay", Work.KEPT),
    Figure("beat", "beat", "a heartbeat of a node that leaves", Work.NODES),
    Figure("encode", "encode", "a snapshot encoded: the longest slice", Work.NOTHING),
    Figure("decode", "decode", "a snapshot decoded: the longest slice", Work.NOTHING),
    Figure("describe", "all", "Metadata of all topics: the longest step", Work.NOTHING),
    Figure("again", "again", "the same once more, from what is kept", Work.NOTHING),
)


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    partitions: int

    @property
    def kept(self) -> int:
        """Partitions of one node."""
        return self.partitions * min(3, self.nodes) // self.nodes


@dataclass(frozen=True, slots=True)
class Row:
    size: Size
    ms: dict[str, float]


FULL = [Size(n, p) for n in (3, 10, 30, 100) for p in (1_000, 10_000, 100_000)]
QUICK = [Size(n, p) for n in (3, 30) for p in (1_000, 10_000)]


def measure(sizes: Sequence[Size], say: Callable[[str], None]) -> list[Row]:
    rows = []
    for size in sizes:
        gc.collect()
        gc.disable()
        try:
            rows.append(Row(size, _measured(size)))
        finally:
            gc.enable()
        say(f"{size.nodes} nodes, {size.partitions:,} partitions")
    return rows


def growth(rows: Sequence[Row], key: str, *, of: Callable[[Size], int]) -> float | None:
    """By which power of `of` a figure grows, from the first row to the last; None if that does not
    grow itself."""
    first, last = rows[0], rows[-1]
    if of(first.size) == of(last.size):
        return None
    return log(last.ms[key] / first.ms[key]) / log(of(last.size) / of(first.size))


def partition_growth(rows: Sequence[Row], key: str) -> float | None:
    """With ever more partitions on the most nodes."""
    most = max(row.size.nodes for row in rows)
    return growth([row for row in rows if row.size.nodes == most], key, of=_partitions)


def node_growth(rows: Sequence[Row], key: str) -> float | None:
    """With ever more nodes for the most partitions."""
    most = max(row.size.partitions for row in rows)
    return growth([row for row in rows if row.size.partitions == most], key, of=_nodes)


def _partitions(size: Size) -> int:
    return size.partitions


def _nodes(size: Size) -> int:
    return size.nodes


def _measured(size: Size) -> dict[str, float]:
    topics = size.partitions // PARTITIONS_A_TOPIC
    image = image_of(nodes=size.nodes, topics=topics, partitions=PARTITIONS_A_TOPIC)
    state = image.partitions_on(_NODE)[0]
    change = PartitionChangeRecord(
        topic_id=topic_id(topics // 2), partition=5, isr=list(state.replicas[:1])
    )
    first, again = _describe(image)
    return {
        "isr": _least(lambda: image.replay([change])),
        "fence": _least(lambda: image.replay(plan_fencing(image, _NODE, safeguards=_ALL)), 2),
        "beat": _heartbeat(image),
        "encode": (encoded := _longest(encoding := SnapshotEncoding(image))),
        "decode": _longest(SnapshotDecoding(encoding.data)) if encoded else 0.0,
        "describe": first,
        "again": again,
    }


_ALL = ALL_SAFEGUARDS


def _cpu_ms(work: Callable[[], object]) -> float:
    before = time.thread_time()
    work()
    return (time.thread_time() - before) * 1000


def _least(work: Callable[[], object], rounds: int = _ROUNDS) -> float:
    return min(_cpu_ms(work) for _ in range(rounds))


def _longest(machine: SnapshotEncoding | SnapshotDecoding) -> float:
    """Of all turns."""
    longest, is_done = 0.0, False

    def turn() -> None:
        nonlocal is_done
        is_done = machine.turn()

    while not is_done:
        longest = max(longest, _cpu_ms(turn))
    return longest


def _heartbeat(image: Image) -> float:
    leaving, _ = image.replay(plan_shutdown(image, _NODE, safeguards=_ALL))
    sessions = Sessions(9000)
    sessions.begin(leaving, now_ms=0, offset=Offset(0))
    beat = Heartbeat(_NODE, leaving.nodes[_NODE].epoch, metadata_offset=0, wants_shutdown=True)
    return _least(lambda: decide_heartbeat(leaving, sessions, beat, now_ms=1))


def _describe(image: Image) -> tuple[float, float]:
    """On a node that knows of the image: the longest step of the first answer, and the second."""
    with TemporaryDirectory() as folder:
        settings = parse_settings({}, "node")
        config = NodeConfig(
            node_id=NodeId(0),
            host="127.0.0.1",
            port=9092,
            settings=node_settings(settings),
            topic_defaults=settings,
        )
        node = Node(config, FileDisk(Path(folder)), Random(0))
        now = Now(1000.0, 1_700_000_000_000)
        node.start(now)
        node.step(now, ConnectionOpened(ConnectionId(1), "bench"))
        node.state.image = image
        return _longest_until_answered(node, now), _longest_until_answered(node, now)


def _longest_until_answered(node: Node, now: Now) -> float:
    request = MetadataRequest(topics=None)
    frame = encode_request(request, _METADATA_VERSION, correlation_id=1, client_id="bench")
    event: Any = FrameReceived(ConnectionId(1), memoryview(bytearray(frame[4:])))
    longest, is_answered = 0.0, False
    while not is_answered:
        before = time.thread_time()
        effects = node.step(now, event)
        longest = max(longest, (time.thread_time() - before) * 1000)
        is_answered = any(isinstance(effect, SendResponse) for effect in effects)
        event = Tick()
    return longest

"""Replay: an archive, or a range of a log, into a topic; keys, headers, timestamps and order kept.

Partition by partition, so that what was in order stays in order: the target needs as many
partitions as the source, and is made so if it is not there. Where the target's partitions ended
before the first record is written down as the offsets of a group named after the replay; from
there on the target itself says how far the replay is (`replay_task.py`). So it may be killed and
started again, and a replay that is done does nothing when started again.

It counts, so it must be the only writer of its target. Brokers with transactions will lift that.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.client import Admin, Connection
from tidelog.model.ids import TopicPartition
from tidelog.spark import group_offsets
from tidelog.spark.cluster import Cluster, TopicView
from tidelog.spark.errors import OptionError
from tidelog.spark.jobs.archive_task import source_options
from tidelog.spark.jobs.replay_source import ArchiveSource, LogSource, Period
from tidelog.spark.jobs.replay_task import Position, ReplayTask
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.spark.lake.archive_table import open_archive
from tidelog.spark.lake.errors import LakeError, LostRecords, TaskFailed
from tidelog.spark.lake.files import overlaps
from tidelog.spark.planner import OffsetRange
from tidelog.spark.sink_options import SinkOptions
from tidelog.wire.compression import Compression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TURN_RECORDS = 500_000
"""Of each partition, between two reports."""

MAX_FAILURES = 4
ALWAYS = Period()

_KEPT = {"retention.ms": "-1"}
"""Of a target that a replay makes: its records are as old as they were, so retention by time would
delete them at once."""

Source = ArchiveSource | LogSource


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """From where (a table of the lake, or a topic), to which topic, and of which time."""

    source: Path | str
    topic: str
    bootstrap: str
    source_bootstrap: str | None = None
    period: Period = ALWAYS
    is_anew: bool = False
    compression: str = "lz4"
    turn_records: int = TURN_RECORDS


@dataclass(frozen=True, slots=True)
class TurnDone:
    """How far a replay is."""

    records: int
    data_bytes: int
    seconds: float
    is_done: bool


def replay(
    spark: SparkSession,
    options: ReplayOptions,
    *,
    on_turn: Callable[[TurnDone], None] = lambda _done: None,
    on_trouble: Callable[[str], None] = lambda _reason: None,
) -> int:
    """Replay what is not replayed yet; how many records that were."""
    if spark.conf.get("spark.speculation", "false") == "true":
        raise OptionError(
            "a replay can't run with spark.speculation: two tasks would write at once"
        )
    source, identity = _source(options)
    if not source.partitions:
        return 0
    with Cluster(options.bootstrap) as cluster:
        view = _target(cluster, options, max(source.partitions) + 1)
        group = _group(options, f"{identity} {view.topic_id}")
        begins = _beginnings(cluster, options, view, group)
    if isinstance(source, LogSource):
        source = _pinned(source, options, group)
    sink = SinkOptions(
        options.bootstrap, topic=options.topic, compression=Compression[options.compression.upper()]
    )
    task = ReplayTask(source, sink, options.turn_records)
    waiting = [Position(each, begins[each]) for each in source.partitions]
    total = failures = 0
    while waiting:
        began_s = time.monotonic()
        try:
            answers = run_tasks(spark, task, waiting)
        except TaskFailed as error:
            failures += 1
            if failures == MAX_FAILURES:
                raise
            on_trouble(f"{error}; the turn is taken again")
            continue
        failures = 0
        records = sum(answer["records"] for answer in answers)
        data_bytes = sum(answer["data_bytes"] for answer in answers)
        total += records
        waiting = [
            replace(position, count=answer["count"], offset=answer["offset"])
            for position, answer in zip(waiting, answers, strict=True)
            if not answer["is_end"]
        ]
        on_turn(TurnDone(records, data_bytes, time.monotonic() - began_s, is_done=not waiting))
    return total


def _source(options: ReplayOptions) -> tuple[Source, str]:
    """The source, and what it is told apart by."""
    if isinstance(options.source, Path):
        return _archive_source(options.source.absolute(), options.period)
    return _log_source(options, options.source)


def _archive_source(path: Path, period: Period) -> tuple[Source, str]:
    table = open_archive(path)
    files = table.files()
    for one, other in overlaps(files):
        raise LakeError(
            f"{one.path} and {other.path} in {path} cover the same offsets: another tool has "
            "rewritten them, so their order is lost"
        )
    return ArchiveSource(str(path), tuple(files), period), f"lake {table.topic} {table.topic_id}"


def _log_source(options: ReplayOptions, topic: str) -> tuple[Source, str]:
    bootstrap = options.source_bootstrap or options.bootstrap
    if topic == options.topic and bootstrap == options.bootstrap:
        raise OptionError(f"topic {topic!r} can't be replayed into itself")
    with Cluster(bootstrap) as cluster:
        view = cluster.topic(topic)
        places = [TopicPartition(topic, partition) for partition in view.partitions]
        ends = cluster.latest(places, is_committed=True)
        since_us = options.period.since_us
        starts: dict[TopicPartition, int | None] = dict(cluster.earliest(places))
        if since_us is not None:
            starts = cluster.offsets_for_times(dict.fromkeys(places, -(-since_us // 1000)))
    ranges = {}
    for place in places:
        start = starts[place]
        end = ends[place]
        begin = end if start is None else min(start, end)
        ranges[place.partition] = OffsetRange(topic, place.partition, begin, end)
    source = LogSource(source_options(topic, bootstrap), ranges, view.topic_id, options.period)
    return source, f"log {topic} {view.topic_id}"


def _target(cluster: Cluster, options: ReplayOptions, partitions: int) -> TopicView:
    view = cluster.find_topic(options.topic)
    if view is None:
        Admin(Connection(options.bootstrap)).create_topic(
            options.topic, partitions=partitions, settings=_KEPT
        )
        view = cluster.topic(options.topic)
    if len(view.partitions) < partitions:
        raise OptionError(
            f"topic {options.topic!r} has {len(view.partitions)} partitions, the source has "
            f"{partitions}: a replay keeps partitions; add some with `tidelog topic alter "
            f"{options.topic} --partitions {partitions}`"
        )
    return view


def _group(options: ReplayOptions, identity: str) -> str:
    """The same for the same replay, and for no other."""
    said = json.dumps([identity, options.topic, options.period.since_us, options.period.until_us])
    return f"tidelog-replay-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def _beginnings(
    cluster: Cluster, options: ReplayOptions, view: TopicView, group: str
) -> dict[int, int]:
    """Where the target's partitions ended before this replay: written down once."""
    places = [TopicPartition(options.topic, partition) for partition in view.partitions]
    known = {} if options.is_anew else group_offsets.committed(cluster, group, places)
    if len(known) < len(places):
        ends = cluster.latest(places)
        missing = {place: ends[place] for place in places if place not in known}
        group_offsets.commit(cluster, group, missing)
        known |= missing
    return {place.partition: offset for place, offset in known.items()}


def _pinned(source: LogSource, options: ReplayOptions, group: str) -> LogSource:
    """The source from where it began when the replay did: retention may have moved its start, and
    records that are skipped by counting must be there to be counted."""
    with Cluster(options.source_bootstrap or options.bootstrap) as cluster:
        starts = {each.place: each.start for each in source.ranges.values()}
        known = {} if options.is_anew else group_offsets.committed(cluster, group, list(starts))
        missing = {place: start for place, start in starts.items() if place not in known}
        group_offsets.commit(cluster, group, missing)
        earliest = cluster.earliest(list(starts))
    for place, start in sorted(known.items()):
        if start < earliest[place]:
            raise LostRecords(
                f"topic {place.topic!r} has deleted records since this replay began (offset "
                f"{start} of partition {place.partition}): it can't go on; --again begins anew"
            )
    begun = {place.partition: start for place, start in {**starts, **known}.items()}
    ranges = {
        partition: OffsetRange(whole.topic, partition, begun[partition], whole.end)
        for partition, whole in source.ranges.items()
    }
    return replace(source, ranges=ranges)

"""From options and a cluster to offsets: which partitions are meant, where they begin and end."""

from __future__ import annotations

import logging
import re

from tidelog.model.ids import TopicPartition
from tidelog.spark import losses
from tidelog.spark.cluster import EARLIEST, LATEST, Cluster, TopicView, no_topic
from tidelog.spark.errors import DataLoss, OptionError, UnknownTopic
from tidelog.spark.option_values import PartitionNumbers
from tidelog.spark.options import Boundary, SourceOptions
from tidelog.spark.planner import OffsetRange

Offsets = dict[TopicPartition, int]

log = logging.getLogger("tidelog.spark")


def find_topics(cluster: Cluster, options: SourceOptions) -> dict[str, TopicView]:
    """The topics that are subscribed to and exist, as they are now, by name."""
    names: list[str] = sorted(options.subscribe or options.assign)
    if options.subscribe_pattern is not None:
        pattern = re.compile(options.subscribe_pattern)
        names = [name for name in cluster.topics() if pattern.fullmatch(name)]
    return cluster.find_topics(names)


def require_topics(cluster: Cluster, options: SourceOptions) -> dict[str, TopicView]:
    """The same; a topic that is named and does not exist is an `UnknownTopic`."""
    found = find_topics(cluster, options)
    for name in (*options.subscribe, *options.assign):
        if name not in found:
            raise no_topic(name, options.bootstrap)
    for name, numbers in options.assign.items():
        for number in numbers:
            if number not in found[name].leaders:
                raise UnknownTopic(
                    f"topic {name!r} has no partition {number}: it has "
                    f"{len(found[name].partitions)}"
                )
    return found


def assigned(options: SourceOptions, topics: dict[str, TopicView]) -> list[TopicPartition]:
    """The partitions to be read, in order."""
    return [
        TopicPartition(name, number)
        for name in sorted(topics)
        for number in topics[name].partitions
        if not options.assign or number in options.assign[name]
    ]


def resolve(
    cluster: Cluster,
    options: SourceOptions,
    boundary: Boundary,
    partitions: list[TopicPartition],
    *,
    is_start: bool,
) -> Offsets:
    """`boundary` as an offset of each partition."""
    if boundary.timestamp_ms is not None:
        times = dict.fromkeys(partitions, boundary.timestamp_ms)
        return _by_time(cluster, options, boundary, times, is_start=is_start)
    if boundary.timestamps_ms is not None:
        times = _numbers(boundary, boundary.timestamps_ms, partitions)
        return _by_time(cluster, options, boundary, times, is_start=is_start)
    if boundary.offsets is not None:
        wanted = _numbers(boundary, boundary.offsets, partitions)
    else:
        wanted = dict.fromkeys(partitions, boundary.everywhere)
    return _specials_resolved(cluster, options, wanted)


def _specials_resolved(cluster: Cluster, options: SourceOptions, wanted: Offsets) -> Offsets:
    at_start = [place for place, offset in wanted.items() if offset == EARLIEST]
    at_end = [place for place, offset in wanted.items() if offset == LATEST]
    found = {
        **cluster.earliest(at_start),
        **cluster.latest(at_end, is_committed=options.is_committed),
    }
    return {place: found.get(place, offset) for place, offset in wanted.items()}


def _by_time(
    cluster: Cluster,
    options: SourceOptions,
    boundary: Boundary,
    times: Offsets,
    *,
    is_start: bool,
) -> Offsets:
    found = cluster.offsets_for_times(times, is_committed=options.is_committed)
    missing = [place for place, offset in found.items() if offset is None]
    if missing and is_start and not options.is_latest_without_match:
        raise OptionError(
            f"{boundary.option}: partition {missing[0]} has no record from {times[missing[0]]} on; "
            "set startingOffsetsByTimestampStrategy to latest to begin at its end"
        )
    ends = cluster.latest(missing, is_committed=options.is_committed)
    return {place: ends[place] if offset is None else offset for place, offset in found.items()}


def _numbers(
    boundary: Boundary, numbers: PartitionNumbers, partitions: list[TopicPartition]
) -> Offsets:
    """One number for each partition, neither fewer nor more, as with Spark's Kafka source."""
    given = {
        TopicPartition(topic, number): value
        for topic, rows in numbers.items()
        for number, value in rows.items()
    }
    missing = [place for place in partitions if place not in given]
    if missing:
        raise OptionError(
            f"{boundary.option} says nothing about partition {missing[0]}: name every partition "
            "(-2 is earliest, -1 is latest)"
        )
    wanted = set(partitions)
    extra = [place for place in given if place not in wanted]
    if extra:
        raise OptionError(f"{boundary.option} names partition {extra[0]}, which is not subscribed")
    return {place: given[place] for place in partitions}


def plan_batch(
    cluster: Cluster, options: SourceOptions
) -> tuple[list[OffsetRange], dict[str, str]]:
    """The ranges of a batch query as of now, and the ids of their topics."""
    assert options.starting is not None
    assert options.ending is not None
    topics = require_topics(cluster, options)
    partitions = assigned(options, topics)
    start = resolve(cluster, options, options.starting, partitions, is_start=True)
    end = resolve(cluster, options, options.ending, partitions, is_start=False)
    ranges = [OffsetRange(*place, start[place], end[place]) for place in partitions]
    checked = clamp(cluster, options, ranges)
    return checked, {name: view.topic_id for name, view in topics.items()}


def clamp(cluster: Cluster, options: SourceOptions, ranges: list[OffsetRange]) -> list[OffsetRange]:
    """The part of each range that exists; the rest is a `DataLoss`, unless that is allowed."""
    filled = [each for each in ranges if each.count > 0]
    places = [each.place for each in filled]
    first, last = cluster.earliest(places), cluster.latest(places)
    before = [
        OffsetRange(*each.place, each.start, min(each.end, first[each.place]))
        for each in filled
        if each.start < first[each.place]
    ]
    after = [
        OffsetRange(*each.place, max(each.start, last[each.place]), each.end)
        for each in filled
        if each.end > last[each.place]
    ]
    for gone, cause in ((before, losses.RETENTION), (after, losses.LOG_SHORTER)):
        if gone and options.fail_on_data_loss:
            raise DataLoss(losses.sentence(gone, cause))
        if gone:
            log.warning("%s", losses.sentence(gone, cause))
    return [
        OffsetRange(
            *each.place, max(each.start, first[each.place]), min(each.end, last[each.place])
        )
        for each in filled
    ]

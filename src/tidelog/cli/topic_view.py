"""A topic as people and programs see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.cli.config import print_values, setting_rows
from tidelog.cli.output import add_rows, people, plural, size_text, table
from tidelog.client.admin import Offsets, Partition, Topic, TopicSetting
from tidelog.model.ids import TopicPartition

Spans = Mapping[TopicPartition, Offsets]
Sizes = Mapping[TopicPartition, int]


Lags = Mapping[int, Mapping[TopicPartition, int]]
"""By node: what each of its copies lacks. A node that is not there has no row."""


def count_records(topic: Topic, offsets: Spans) -> int | None:
    """None if nobody leads one of its partitions, and so nobody knows."""
    if len(topic.led_partitions) < len(topic.partitions):
        return None
    return sum(offsets[place].records for place in topic.topic_partitions)


def show_topic(
    topic: Topic, offsets: Spans, *, sizes: Sizes, lags: Lags, settings: Mapping[str, TopicSetting]
) -> None:
    """A line that says it all, the partitions, the settings."""
    console = people()
    parts = [plural(len(topic.partitions), "partition")]
    records = count_records(topic, offsets)
    if records is not None:
        parts.append(plural(records, "record"))
    if sizes:
        parts.append(size_text(sum(sizes.values())))
    if topic.replication_factor > 1:
        parts.append(f"{topic.replication_factor} copies of each")
    console.print(f"{topic.name}: {', '.join(parts)}")
    unled = len(topic.partitions) - len(topic.led_partitions)
    if unled:
        console.print(f"{plural(unled, 'partition')} led by nobody: see `tidelog cluster status`")
    console.print()
    has_copies = topic.replication_factor > 1
    copies = ["~Replicas", "~In sync", "~Behind"] if has_copies else []
    made = table("#Partition", "#Leader", *copies, "#Start", "#End", "#Records", "#Size")
    rows = (
        (
            partition.number,
            partition.leader if partition.is_led else "none",
            *(_copies(place, partition, lags) if has_copies else ()),
            *_span(offsets.get(place)).values(),
            size_text(sizes[place]) if place in sizes else None,
        )
        for place, partition in _placed(topic)
    )
    console.print(add_rows(made, rows))
    console.print()
    print_values(settings)


def _copies(place: TopicPartition, partition: Partition, lags: Lags) -> tuple[str, str, str]:
    """Who has it, who has all of it, and what the others lack."""
    behind = [
        f"{node_id}: {'away' if lag is None else f'{lag:,}'}"
        for node_id, lag in _lag_of_each(place, partition, lags).items()
        if lag != 0
    ]
    return _listed(partition.replicas), _listed(partition.in_sync), ", ".join(behind) or "-"


def _lag_of_each(place: TopicPartition, partition: Partition, lags: Lags) -> dict[int, int | None]:
    return {node_id: lags.get(node_id, {}).get(place) for node_id in partition.replicas}


def as_document(
    topic: Topic, offsets: Spans, *, sizes: Sizes, lags: Lags, settings: Mapping[str, TopicSetting]
) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "topic": topic.name,
        "partitions": [
            {
                "partition": partition.number,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "in_sync": list(partition.in_sync),
                "lag": {
                    str(node_id): lag
                    for node_id, lag in _lag_of_each(place, partition, lags).items()
                },
                **_span(offsets.get(place)),
                "size_bytes": sizes.get(place),
            }
            for place, partition in _placed(topic)
        ],
        "settings": setting_rows(settings),
    }


def _span(span: Offsets | None) -> dict[str, int | None]:
    """Unknown while nobody leads."""
    return {
        "start_offset": None if span is None else span.start,
        "end_offset": None if span is None else span.end,
        "records": None if span is None else span.records,
    }


def _listed(node_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, node_ids))


def _placed(topic: Topic) -> list[tuple[TopicPartition, Partition]]:
    return list(zip(topic.topic_partitions, topic.partitions, strict=True))

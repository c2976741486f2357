"""The options of `format("tidelog")`: Spark's Kafka names, in any case of letters.

Parsed once on the driver and sent to the tasks as a value. Everything that can be found wrong
without asking a broker is found here, each as one line; what fits a batch and what fits a stream is
checked by `for_batch` and `for_stream`, since Spark makes a source before it says which it wants.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Self

from tidelog.spark.cluster import EARLIEST, LATEST, Cluster, parse_addresses
from tidelog.spark.columns import all_columns, chosen_columns
from tidelog.spark.errors import OptionError
from tidelog.spark.option_values import (
    PartitionNumbers,
    parse_assignment,
    parse_count,
    parse_duration_ms,
    parse_names,
    parse_partition_numbers,
    parse_pattern,
    parse_switch,
    parse_timestamp_ms,
    parse_word,
)

NAMES = (
    "kafka.bootstrap.servers",
    "subscribe",
    "assign",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "kafka.group.id",
    "groupIdPrefix",
    "columns",
    "isolation.level",
    "kafka.isolation.level",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.fetch.max.bytes",
    "maxDecompressedBytes",
)
"""The source's; the sink's are in `sink_options.py`."""

DEFAULT_GROUP_PREFIX = "spark-tidelog-source"
DEFAULT_TRIGGER_DELAY_MS = 15 * 60_000
DEFAULT_TIMEOUT_S = 60.0

DEFAULT_FETCH_BYTES = 8 * 1024 * 1024
"""What a task holds of the log at a time, twice: one answer is decoded while the next comes in."""

DEFAULT_DECOMPRESSED_BYTES = 256 * 1024 * 1024
"""One record batch may not become larger than this: beyond, it is taken for a bomb."""

MAX_DECOMPRESSED_BYTES = 1 << 30
"""An Arrow column of bytes counts them with 32 bits."""

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where reading begins or ends: exactly one of these is meant.

    `everywhere` (`EARLIEST` or `LATEST`) applies unless there are `offsets` (which may hold those
    two as well), one `timestamp_ms` for all partitions, or `timestamps_ms` for each.
    """

    option: str
    """As the user spelled it, for messages."""
    everywhere: int = EARLIEST
    offsets: PartitionNumbers | None = None
    timestamp_ms: int | None = None
    timestamps_ms: PartitionNumbers | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of a source, parsed. `starting` is None where the default of its kind is meant:
    earliest for a batch, latest for a stream."""

    bootstrap: str
    subscribe: tuple[str, ...] = ()
    assign: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    subscribe_pattern: str | None = None
    starting: Boundary | None = None
    ending: Boundary | None = None
    is_latest_without_match: bool = False
    """For a start by time that lies after the last record: latest, instead of an error."""
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = DEFAULT_TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    group_id: str | None = None
    group_id_prefix: str = DEFAULT_GROUP_PREFIX
    columns: tuple[str, ...] | None = None
    isolation_level: str = READ_UNCOMMITTED
    client_id: str = "tidelog-spark"
    timeout_s: float = DEFAULT_TIMEOUT_S
    fetch_max_bytes: int = DEFAULT_FETCH_BYTES
    max_decompressed_bytes: int = DEFAULT_DECOMPRESSED_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """From the options as Spark gives them, or an `OptionError`."""
        given = Given(options, NAMES)
        bootstrap = given.bootstrap()
        chosen = [name for name in ("subscribe", "assign", "subscribePattern") if given.has(name)]
        if len(chosen) != 1:
            raise OptionError(
                "give exactly one of subscribe, assign and subscribePattern"
                + (f", not {' and '.join(chosen)}" if chosen else "")
            )
        include_headers = given.switch("includeHeaders", default=False)
        columns = given.names("columns")
        return cls(
            bootstrap=bootstrap,
            subscribe=given.names("subscribe") or (),
            assign=given.assignment("assign"),
            subscribe_pattern=given.pattern("subscribePattern"),
            starting=given.boundary("starting"),
            ending=given.boundary("ending"),
            is_latest_without_match=given.word(
                "startingOffsetsByTimestampStrategy", ("error", "latest")
            )
            == "latest",
            max_offsets_per_trigger=given.count("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=given.count("minOffsetsPerTrigger"),
            max_trigger_delay_ms=given.duration_ms(
                "maxTriggerDelay", default=DEFAULT_TRIGGER_DELAY_MS
            ),
            min_partitions=given.count("minPartitions"),
            max_records_per_partition=given.count("maxRecordsPerPartition"),
            fail_on_data_loss=given.switch("failOnDataLoss", default=True),
            include_headers=include_headers,
            group_id=given.text("kafka.group.id"),
            group_id_prefix=given.text("groupIdPrefix") or DEFAULT_GROUP_PREFIX,
            columns=columns and chosen_columns(columns, include_headers=include_headers),
            isolation_level=given.isolation_level(),
            client_id=given.text("kafka.client.id") or "tidelog-spark",
            timeout_s=(given.count("kafka.request.timeout.ms") or DEFAULT_TIMEOUT_S * 1000) / 1000,
            fetch_max_bytes=given.count("kafka.fetch.max.bytes") or DEFAULT_FETCH_BYTES,
            max_decompressed_bytes=min(
                given.count("maxDecompressedBytes") or DEFAULT_DECOMPRESSED_BYTES,
                MAX_DECOMPRESSED_BYTES,
            ),
        )._checked()

    def _checked(self) -> Self:
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise OptionError(
                f"minOffsetsPerTrigger ({least}) must not exceed maxOffsetsPerTrigger ({most})"
            )
        return self

    def for_batch(self) -> Self:
        """With what a batch means where nothing is said, or an `OptionError`."""
        starting = self.starting or Boundary("startingOffsets", EARLIEST)
        ending = self.ending or Boundary("endingOffsets", LATEST)
        if _has(starting, LATEST):
            raise OptionError("startingOffsets can't be latest in a batch: it would read nothing")
        if _has(ending, EARLIEST):
            raise OptionError("endingOffsets can't be earliest: there is nothing before it")
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"):
            if getattr(self, _FIELDS[name]) is not None:
                raise OptionError(f"{name} is for streams: a batch reads all of its range")
        return replace(self, starting=starting, ending=ending)

    def for_stream(self) -> Self:
        """With what a stream means where nothing is said, or an `OptionError`."""
        if self.ending is not None:
            raise OptionError(f"{self.ending.option} is for batches: a stream has no end")
        return replace(self, starting=self.starting or Boundary("startingOffsets", LATEST))

    @property
    def is_committed(self) -> bool:
        return self.isolation_level == READ_COMMITTED

    @property
    def read_columns(self) -> tuple[str, ...]:
        return self.columns or all_columns(include_headers=self.include_headers)

    @property
    def group(self) -> str:
        """The group that shows the stream's progress: the one given, else one that stays the same
        as long as the subscription does. Queries with the same subscription should be given
        groups of their own, or each shows the other's progress."""
        if self.group_id is not None:
            return self.group_id
        what = [sorted(self.subscribe), sorted(self.assign.items()), self.subscribe_pattern]
        digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()
        return f"{self.group_id_prefix}-{digest[:8]}"


def connect(options: SourceOptions) -> Cluster:
    """The cluster that the options name; nothing is asked of it yet."""
    return Cluster(options.bootstrap, timeout_s=options.timeout_s, client_id=options.client_id)


_FIELDS = {
    "maxOffsetsPerTrigger": "max_offsets_per_trigger",
    "minOffsetsPerTrigger": "min_offsets_per_trigger",
}


def _has(boundary: Boundary, special: int) -> bool:
    if boundary.offsets is not None:
        return any(special in rows.values() for rows in boundary.offsets.values())
    by_time = boundary.timestamp_ms is not None or boundary.timestamps_ms is not None
    return not by_time and boundary.everywhere == special


class Given:
    """The options as given, by name in any case; unknown names are refused with the nearest."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._known = {name.lower(): name for name in known}
        self._texts: dict[str, str] = {}
        for name, text in options.items():
            if name.lower() not in self._known:
                raise unknown_option(name, known)
            self._texts[name.lower()] = text

    def has(self, name: str) -> bool:
        return name.lower() in self._texts

    def text(self, name: str) -> str | None:
        found = self._texts.get(name.lower())
        if found is not None and not found.strip():
            raise OptionError(f"{name} is empty")
        return found

    def bootstrap(self) -> str:
        text = self.text("kafka.bootstrap.servers")
        if text is None:
            raise OptionError("kafka.bootstrap.servers is missing: HOST:PORT of a broker")
        parse_addresses(text)
        return text

    def count(self, name: str) -> int | None:
        text = self.text(name)
        return None if text is None else parse_count(name, text)

    def switch(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        return default if text is None else parse_switch(name, text)

    def word(self, name: str, allowed: tuple[str, ...]) -> str:
        """The first of `allowed` where nothing is given."""
        text = self.text(name)
        return allowed[0] if text is None else parse_word(name, text, allowed)

    def names(self, name: str) -> tuple[str, ...] | None:
        text = self.text(name)
        return None if text is None else parse_names(name, text)

    def pattern(self, name: str) -> str | None:
        text = self.text(name)
        return None if text is None else parse_pattern(name, text)

    def assignment(self, name: str) -> dict[str, tuple[int, ...]]:
        text = self.text(name)
        return {} if text is None else parse_assignment(name, text)

    def duration_ms(self, name: str, *, default: int) -> int:
        text = self.text(name)
        return default if text is None else parse_duration_ms(name, text)

    def isolation_level(self) -> str:
        """With Kafka's prefix or without."""
        levels = (READ_UNCOMMITTED, READ_COMMITTED)
        kafka = self.word("kafka.isolation.level", levels)
        return self.word("isolation.level", levels) if self.has("isolation.level") else kafka

    def boundary(self, side: str) -> Boundary | None:
        """`side` is starting or ending. A time wins over offsets, one for all over one for each."""
        for_all, for_each, offsets = (
            f"{side}Timestamp",
            f"{side}OffsetsByTimestamp",
            f"{side}Offsets",
        )
        text = self.text(for_all)
        if text is not None:
            return Boundary(for_all, timestamp_ms=parse_timestamp_ms(for_all, text))
        text = self.text(for_each)
        if text is not None:
            numbers = parse_partition_numbers(for_each, text, least=0)
            return Boundary(for_each, timestamps_ms=numbers)
        text = self.text(offsets)
        if text is None:
            return None
        word = text.strip().lower()
        if word in ("earliest", "latest"):
            return Boundary(offsets, EARLIEST if word == "earliest" else LATEST)
        if not word.startswith("{"):
            example = '{"orders": {"0": 23}}'
            raise OptionError(f"{offsets} must be earliest, latest or {example}, not {text!r}")
        return Boundary(offsets, offsets=parse_partition_numbers(offsets, text, least=EARLIEST))


_SECURITY = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")


def unknown_option(name: str, known: tuple[str, ...]) -> OptionError:
    """The nearest that there is, in one line."""
    if name.lower().startswith(_SECURITY):
        return OptionError(f"{name} can't be given: this release connects without TLS and SASL")
    spelled = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    hint = f"did you mean {spelled[near[0]]}?" if near else f"there are {', '.join(known)}"
    return OptionError(f"there is no option {name}: {hint}")

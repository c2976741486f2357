"""A Kafka cluster as the pipeline sees it: topics, leaders, offsets by end or by time.

Works with any broker: versions are negotiated, leaders looked up and looked up again when they
move, throttling obeyed. Nothing here creates a topic unless asked to (`create_missing`). Every
failure that remains after `timeout_s` is a `PipelineError` in words.

A cluster keeps one connection per broker and belongs to one thread. It is cheap to make: tasks on
executors make their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.spark import group_offsets
from tidelog.spark.connection import Address, BrokerConnection
from tidelog.spark.errors import NoBroker, OptionError, StaleView, UnknownTopic, refusal
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.schema import NO_UUID

DEFAULT_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 10.0
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0

LATEST = -1
EARLIEST = -2
_READ_COMMITTED = 1

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as the last answer described it. `topic_id` is empty where brokers tell none."""

    name: str
    topic_id: str
    leaders: Mapping[int, int]
    """Node by partition; -1 for none."""
    leader_epochs: Mapping[int, int] = field(default_factory=dict)

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(sorted(self.leaders))


class Cluster:
    """`with Cluster("127.0.0.1:9092") as cluster: cluster.partitions("orders")`."""

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        client_id: str = "tidelog-spark",
    ) -> None:
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._client_id = client_id
        self._seeds = parse_addresses(bootstrap)
        self._nodes: dict[int, Address] = {}
        self._lines: dict[Address, BrokerConnection] = {}
        self._views: dict[str, TopicView] = {}

    # --- topics -------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """The names of all topics that are not the cluster's own."""
        return sorted(row.name for row in self._metadata(None).topics if not row.is_internal)

    def find_topics(
        self, names: Iterable[str], *, create_missing: bool = False
    ) -> dict[str, TopicView]:
        """Those of the topics that exist, as they are now: one question for all."""
        asked = list(names)
        if not asked:
            return {}

        def look() -> dict[str, TopicView]:
            rows = self._metadata(asked, create_missing=create_missing).topics
            found = {row.name: self._remember(row, create_missing) for row in rows}
            return {name: view for name in asked if (view := found.get(name)) is not None}

        return self.retrying(f"topic {asked[0]!r}", look)

    def find_topic(self, topic: str, *, create_missing: bool = False) -> TopicView | None:
        """The topic as it is now, asked afresh; None if there is none."""
        return self.find_topics([topic], create_missing=create_missing).get(topic)

    def topic(self, topic: str, *, create_missing: bool = False) -> TopicView:
        """The topic as it is now, or `UnknownTopic`."""
        view = self.find_topic(topic, create_missing=create_missing)
        if view is None:
            raise no_topic(topic, self.bootstrap)
        return view

    def partitions(self, topic: str) -> list[int]:
        return list(self.topic(topic).partitions)

    def topic_id(self, topic: str) -> str:
        """Empty where brokers tell none; a topic created again has another."""
        return self.topic(topic).topic_id

    def known(self, topic: str) -> TopicView:
        """The topic as it was when last asked: for leaders, which are checked by being asked."""
        return self._views.get(topic) or self.topic(topic)

    def _remember(self, row: Any, create_missing: bool) -> TopicView | None:
        if row.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create_missing:
            self._views.pop(row.name, None)
            return None
        if row.error_code.is_retriable:
            raise StaleView(row.error_code.explanation)
        if row.error_code is not ErrorCode.NONE:
            raise refusal(f"topic {row.name!r}", row.error_code)
        view = TopicView(
            name=row.name,
            topic_id="" if row.topic_id == NO_UUID else str(row.topic_id),
            leaders={each.partition_index: each.leader_id for each in row.partitions},
            leader_epochs={each.partition_index: each.leader_epoch for each in row.partitions},
        )
        self._views[row.name] = view
        return view

    def _metadata(self, topics: list[str] | None, *, create_missing: bool = False) -> Any:
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=create_missing)
        answer = self.ask_anyone(request)
        self._nodes = {row.node_id: Address(row.host, row.port) for row in answer.brokers}
        return answer

    # --- offsets ------------------------------------------------------------------------------

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition's log begins."""
        return self._list_offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self, partitions: Iterable[TopicPartition], *, is_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The next offset of each partition; with `is_committed` that of the first record whose
        transaction is still open."""
        return self._list_offsets(dict.fromkeys(partitions, LATEST), is_committed=is_committed)

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], *, is_committed: bool = False
    ) -> dict[TopicPartition, int | None]:
        """The first offset whose timestamp is not before the given one; None where there is none.

        Every record before that offset is older, whatever the order of timestamps in the log.
        """
        found = self._list_offsets(times_ms, is_committed=is_committed)
        return {place: offset if offset >= 0 else None for place, offset in found.items()}

    def _list_offsets(
        self, times_ms: Mapping[TopicPartition, int], *, is_committed: bool = False
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}

        def ask() -> dict[TopicPartition, int]:
            missing = {place: at for place, at in times_ms.items() if place not in found}
            failures: list[ErrorCode] = []
            for node, asked in self._by_leader(missing).items():
                request = _offsets_request(asked, is_committed=is_committed)
                self._keep_offsets(self.ask_node(node, request), found, failures)
            if failures:
                raise StaleView(failures[0].explanation)
            return found

        self.retrying("the offsets of the topic", ask)
        return {place: found[place] for place in times_ms}

    def _keep_offsets(
        self, answer: Any, found: dict[TopicPartition, int], failures: list[ErrorCode]
    ) -> None:
        for topic in answer.topics:
            for row in topic.partitions:
                place = TopicPartition(topic.name, row.partition_index)
                if row.error_code is ErrorCode.NONE:
                    found[place] = row.offset
                elif row.error_code.is_retriable:
                    failures.append(row.error_code)
                    self._views.pop(topic.name, None)
                else:
                    raise refusal(f"partition {place}", row.error_code)

    def _by_leader(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[int, dict[TopicPartition, int]]:
        grouped: dict[int, dict[TopicPartition, int]] = {}
        for place, value in wanted.items():
            grouped.setdefault(self.leader_of(place), {})[place] = value
        return grouped

    # --- groups -------------------------------------------------------------------------------

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """The group has read up to `offsets`."""
        group_offsets.commit(self, group, offsets)

    def committed(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """How far the group has read; without the partitions for which it said nothing."""
        return group_offsets.committed(self, group, partitions)

    def serves(self, api_keys: Iterable[int]) -> bool:
        """Whether brokers serve all of these APIs, by the one that answers first."""

        def ask() -> bool:
            for address in self._seeds:
                try:
                    line = self.line_to(address)
                except (OSError, DecodeError):
                    continue
                return all(line.serves(key) for key in api_keys)
            raise StaleView("no broker accepts connections")

        return self.retrying("what it serves", ask)

    # --- asking -------------------------------------------------------------------------------

    def leader_of(self, place: TopicPartition) -> int:
        """The node to ask about that partition, as far as known; `StaleView` if there is none."""
        leader = self.known(place.topic).leaders.get(place.partition)
        if leader is None:
            self.forget(place.topic)
            view = self.topic(place.topic)
            if place.partition not in view.leaders:
                raise UnknownTopic(
                    f"topic {place.topic!r} has no partition {place.partition}: "
                    f"it has {len(view.partitions)}"
                )
            leader = view.leaders[place.partition]
        if leader < 0 or leader not in self._nodes:
            self.forget(place.topic)
            raise StaleView(f"partition {place} has no leader")
        return leader

    def forget(self, topic: str) -> None:
        """What is known of the topic proved wrong."""
        self._views.pop(topic, None)

    def ask_node(self, node: int, request: Any, *, at_most: int | None = None) -> Any:
        """Ask that broker; `StaleView` if it does not answer."""
        address = self._nodes.get(node)
        if address is None:
            raise StaleView(f"node {node} is not known")
        return self.ask_at(address, request, at_most=at_most)

    def ask_at(self, address: Address, request: Any, *, at_most: int | None = None) -> Any:
        try:
            return self.line_to(address).ask(request, at_most=at_most)
        except (OSError, DecodeError) as error:
            self.drop(address)
            self._views.clear()
            raise StaleView(f"{address}: {error}") from None

    def line_of(self, node: int) -> BrokerConnection:
        """The connection to that node, for those who send now and receive later."""
        address = self._nodes.get(node)
        if address is None:
            raise StaleView(f"node {node} is not known")
        try:
            return self.line_to(address)
        except (OSError, DecodeError) as error:
            self.drop(address)
            raise StaleView(f"{address}: {error}") from None

    def line_to(self, address: Address) -> BrokerConnection:
        line = self._lines.get(address)
        if line is None:
            line = BrokerConnection(
                address,
                connect_timeout_s=min(self.timeout_s, _CONNECT_TIMEOUT_S),
                timeout_s=self.timeout_s,
                client_id=self._client_id,
            )
            self._lines[address] = line
        return line

    def drop(self, address: Address) -> None:
        """A connection that failed is of no use; the next question makes another."""
        line = self._lines.pop(address, None)
        if line is not None:
            line.close()

    def ask_anyone(self, request: Any) -> Any:
        """Ask whichever broker answers, again until `timeout_s`; `NoBroker` if none does."""

        def ask() -> Any:
            reasons = []
            for address in [*self._nodes.values(), *self._seeds]:
                try:
                    return self.ask_at(address, request)
                except StaleView as error:
                    reasons.append(str(error))
            raise StaleView(reasons[0])

        return self.retrying("the cluster", ask)

    def retrying(self, what: str, attempt: Callable[[], _T]) -> _T:
        """`attempt` again while it says `StaleView`, for `timeout_s` in all."""
        deadline_s = time.monotonic() + self.timeout_s
        pause_s = _PAUSE_S
        while True:
            try:
                return attempt()
            except StaleView as error:
                if time.monotonic() + pause_s >= deadline_s:
                    raise NoBroker(
                        f"{self.bootstrap} gives no answer about {what} "
                        f"after {self.timeout_s:g} s: {error}"
                    ) from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def parse_addresses(bootstrap: str) -> list[Address]:
    """Each `HOST:PORT` of a comma-separated list; anything else is an `OptionError`."""
    found = []
    for part in bootstrap.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65_536):
            raise OptionError(
                f"kafka.bootstrap.servers must be HOST:PORT,HOST:PORT…, not {part.strip()!r}"
            )
        found.append(Address(host.strip("[]"), int(port)))
    return found


def no_topic(topic: str, bootstrap: str) -> UnknownTopic:
    return UnknownTopic(
        f"there is no topic {topic!r} at {bootstrap}: create it with `tidelog topic create {topic}`"
    )


def _offsets_request(
    asked: Mapping[TopicPartition, int], *, is_committed: bool
) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for place, timestamp in asked.items():
        row = ListOffsetsPartition(partition_index=place.partition, timestamp=timestamp)
        topics.setdefault(place.topic, []).append(row)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=_READ_COMMITTED if is_committed else 0,
        topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        timeout_ms=30_000,
    )

"""Batches that lie in a log and that no client can read: found, named, and passed over if wanted.

librdkafka reports some of them without saying which (`_BAD_COMPRESSION`), and asks for others
again and again without a word. So a partition of which nothing comes although the node has more is
looked at over a connection of our own: whether the batch that should come next can be opened.
Without such a connection (TLS, SASL) nothing is found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from tidelog.client.connection import Connection
from tidelog.client.direct import ask, ask_any, is_possible
from tidelog.client.errors import ClientError, DamagedBatch
from tidelog.client.message import Message
from tidelog.client.received import message_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.wire.batch import BatchHeader, iter_batches
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.records import decode_records

SILENT_S = 1.0
"""Nothing came for so long: worth a look."""

BUSY_SILENT_S = 20.0
"""The same while other partitions have records all the time."""

_ANSWER_S = 5.0

_UNREADABLE = (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG, ErrorCode.CORRUPT_MESSAGE)

_FETCHED_BYTES = 1 << 20
_MOST_OPENED_BYTES = 64 * 1024 * 1024

OnDamage = Callable[[DamagedBatch], None]


class DamageWatch:
    """What is read of each partition, and what stands in the way of the next record."""

    def __init__(
        self,
        client: confluent_kafka.Consumer,
        connection: Connection,
        *,
        starts: Mapping[TopicPartition, int] | None = None,
        begins_at_end: bool = False,
        on_damage: OnDamage | None = None,
    ) -> None:
        """`starts` has the offset each partition is read from, where that is known; otherwise it is
        what a group has committed, or the beginning, or the end if it `begins_at_end`. With
        `on_damage` damaged batches are passed over, and it is told of each; without, a
        `DamagedBatch` is raised."""
        self._client = client
        self._connection = connection
        self._begins_at_end = begins_at_end
        self._on_damage = on_damage
        self._next: dict[tuple[str, int], int] = {
            (topic, partition): offset for (topic, partition), offset in (starts or {}).items()
        }
        self._next_before: dict[tuple[str, int], int] = {}
        self._looked_s = time.monotonic()
        self._is_possible = is_possible(connection)

    def received(self, topic: str, partition: int, next_offset: int) -> None:
        self._next[topic, partition] = next_offset

    def opened(self, received: confluent_kafka.Message) -> Message | None:
        """What has come, as ours; None if it can't be had and is passed over. confluent-kafka has
        no way to hand over a header whose name is not UTF-8, and says so in two ways."""
        place = TopicPartition(received.topic() or "", received.partition() or 0)
        offset = received.offset() or 0
        try:
            message = message_of(received)
        except (SystemError, UnicodeDecodeError):
            self._report(DamagedBatch(place, offset, offset, "a header's name is not UTF-8"))
            message = None
        self._next[place] = offset + 1
        return message

    def look(self, *, is_silent: bool) -> None:
        """To be called between records; `is_silent` if none has just come."""
        now_s = time.monotonic()
        if now_s - self._looked_s < (SILENT_S if is_silent else BUSY_SILENT_S):
            return
        before, self._next_before = self._next_before, {}
        assigned = self._client.assignment() if self._is_possible else []
        self._forget_all_but({(each.topic, each.partition) for each in assigned})
        for each in assigned:
            place = (each.topic, each.partition)
            if place not in self._next:
                self._note_start(each)
            elif before.get(place) == self._next[place] and self._has_more(each):
                self._judge(TopicPartition(*place), self._next[place])
            if place in self._next:
                self._next_before[place] = self._next[place]
        self._looked_s = time.monotonic()

    def _forget_all_but(self, assigned: set[tuple[str, int]]) -> None:
        """Another member of the group may read the others further, and hand them back."""
        for place in [place for place in self._next if place not in assigned]:
            del self._next[place]

    def explains(self, error: KafkaError, received: confluent_kafka.Message) -> bool:
        """Whether `error` is about a batch that is damaged, and that has been passed over. If it
        is not to be passed over, `DamagedBatch` is raised."""
        if error.code() not in _UNREADABLE or not self._is_possible:
            return False
        place = TopicPartition(received.topic() or "", received.partition() or 0)
        offset = received.offset() or 0
        is_old = offset < self._next.get(place, -1)
        return is_old or self._judge(place, offset)

    def _note_start(self, assigned: confluent_kafka.TopicPartition) -> None:
        """Where a partition is read from of which nothing has come yet, if that can be known."""
        offset = -1
        try:
            if self._client.memberid():
                offset = self._client.committed([assigned], timeout=_ANSWER_S)[0].offset
            if offset < 0 and self._begins_at_end:
                offset = self._client.get_watermark_offsets(assigned, cached=True)[1]
            elif offset < 0:
                offset = self._client.get_watermark_offsets(assigned, timeout=_ANSWER_S)[0]
        except KafkaException:
            return
        if offset >= 0:
            self._next[assigned.topic, assigned.partition] = offset

    def _has_more(self, assigned: confluent_kafka.TopicPartition) -> bool:
        try:
            high: int = self._client.get_watermark_offsets(assigned, cached=True)[1]
        except KafkaException:
            return False
        return self._next[assigned.topic, assigned.partition] < high

    def _judge(self, place: TopicPartition, offset: int) -> bool:
        """Whether the batch at `offset` was damaged and is passed over now."""
        damage = damaged_batch(self._connection, place, offset)
        if damage is None:
            return False
        self._report(damage)
        self._next[place] = damage.next_offset
        try:
            self._client.seek(confluent_kafka.TopicPartition(*place, damage.next_offset))
        except KafkaException:
            pass  # No longer ours: its new owner meets it, too.
        return True

    def _report(self, damage: DamagedBatch) -> None:
        if self._on_damage is None:
            raise damage
        self._on_damage(damage)


def damaged_batch(
    connection: Connection, place: TopicPartition, offset: int
) -> DamagedBatch | None:
    """What is wrong with the batch at `offset`, if anything is and the partition can be asked."""
    try:
        return _look_at(connection, place, offset)
    except ClientError:
        return None


def _look_at(connection: Connection, place: TopicPartition, offset: int) -> DamagedBatch | None:
    topic = MetadataRequestTopic(name=place.topic)
    request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
    metadata = ask_any(connection, request)
    nodes = {node.node_id: (node.host, node.port) for node in metadata.brokers}
    leader = next(
        (row.leader_id for row in metadata.topics[0].partitions if row.partition_index == place[1]),
        -1,
    )
    if leader not in nodes:
        return None
    wanted = FetchPartition(
        partition=place.partition, fetch_offset=offset, partition_max_bytes=_FETCHED_BYTES
    )
    named = FetchTopic(topic=place.topic, topic_id=metadata.topics[0].topic_id, partitions=[wanted])
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=_FETCHED_BYTES, topics=[named])
    answer = ask(connection, nodes[leader], fetch)
    for data in answer.responses[0].partitions if answer.responses else ():
        if data.error_code is ErrorCode.CORRUPT_MESSAGE:
            return DamagedBatch(place, offset, offset, "the node finds it damaged on its disk")
        if isinstance(data.records, memoryview):
            return _first_damage(place, offset, data.records)
    return None


def _first_damage(place: TopicPartition, offset: int, data: memoryview) -> DamagedBatch | None:
    """Of the batch that holds `offset`; the last one in `data` may be cut off."""
    header: BatchHeader | None = None
    try:
        for header, batch in iter_batches(data):
            if header.last_offset >= offset:
                decode_records(batch, _MOST_OPENED_BYTES)
                return None
    except DecodeError as error:
        if header is None or header.last_offset < offset:
            return None
        return DamagedBatch(place, header.base_offset, header.last_offset, str(error))
    return None

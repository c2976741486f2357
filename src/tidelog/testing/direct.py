"""The protocol spoken directly, for the test's own hand: one connection, one request, its answer.

So `node.produce` and `node.records` need no client library, take a millisecond, and are not struck
by the faults that are meant for the code under test.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tidelog.client.message import Message
from tidelog.model.errors import ErrorCode
from tidelog.testing.faults import TEST_CLIENT_ID
from tidelog.testing.node_error import NodeError
from tidelog.wire.batch import iter_batches
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import Record, decode_records, encode_batch
from tidelog.wire.requests import decode_response, encode_request
from tidelog.wire.schema import schema_of

_VERSIONS = {
    ProduceRequest: 9,
    FetchRequest: 12,
    ListOffsetsRequest: 5,
    MetadataRequest: 8,
    CreateTopicsRequest: 5,
}
"""The newest that name topics by name and need no further request."""

_LENGTH = struct.Struct(">i")
_TIMEOUT_S = 30.0
_MAX_BYTES = 64 * 1024 * 1024
_BROKER_DEFAULT = -1
_EARLIEST = -2


class DirectClient:
    """An open connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._next_correlation = 1

    def create_topic(self, name: str, *, partitions: int, settings: Mapping[str, str]) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=_BROKER_DEFAULT,
            configs=[CreatableTopicConfig(name=key, value=settings[key]) for key in settings],
        )
        answer = self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=int(_TIMEOUT_S * 1000)))
        for row in answer.topics:
            _check(row.error_code, f"creating topic {name!r}", said=row.error_message)

    def partitions(self, topic: str) -> list[int]:
        """The topic's partitions; none if there is no such topic."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        row = self._ask(request).topics[0]
        if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        _check(row.error_code, f"looking up topic {topic!r}")
        return sorted(partition.partition_index for partition in row.partitions)

    def produce(self, topic: str, partition: int, records: Sequence[Record]) -> int:
        """Append `records` as one batch; the offset of the first."""
        data = PartitionProduceData(
            index=partition, records=bytes(encode_batch(records, base_offset=0))
        )
        request = ProduceRequest(
            acks=-1,
            timeout_ms=int(_TIMEOUT_S * 1000),
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        row = self._ask(request).responses[0].partition_responses[0]
        _check(row.error_code, f"producing to {topic!r}", said=row.error_message)
        offset: int = row.base_offset
        return offset

    def records(self, topic: str, partition: int) -> Iterator[Message]:
        """All that a consumer could read now."""
        offset = self._earliest_offset(topic, partition)
        while True:
            row = self._fetch(topic, partition, offset)
            _check(row.error_code, f"reading {topic!r}")
            start = offset
            for header, batch in iter_batches(memoryview(row.records or b"")):
                offset = header.next_offset
                if not header.is_control:
                    found = decode_records(batch, _MAX_BYTES)
                    yield from (_message(topic, partition, r) for r in found if r.offset >= start)
            if offset == start or offset >= row.high_watermark:
                return

    def _earliest_offset(self, topic: str, partition: int) -> int:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=_EARLIEST)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
        )
        row = self._ask(request).topics[0].partitions[0]
        _check(row.error_code, f"looking up where {topic!r} begins")
        offset: int = row.offset
        return offset

    def _fetch(self, topic: str, partition: int, offset: int) -> Any:
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=_MAX_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_MAX_BYTES,
            isolation_level=1,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        return self._ask(request).responses[0].partitions[0]

    def _ask(self, request: Any) -> Any:
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        version = _VERSIONS[type(request)]
        correlation = self._next_correlation
        self._next_correlation += 1
        self._socket.sendall(
            encode_request(request, version, correlation_id=correlation, client_id=TEST_CLIENT_ID)
        )
        (size,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        return decode_response(api_key, version, memoryview(self._receive(size)))[1]

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise NodeError("the node closed the connection")
            data += piece
        return bytes(data)


@contextmanager
def direct_client(host: str, port: int) -> Iterator[DirectClient]:
    try:
        sock = socket.create_connection((host, port), timeout=_TIMEOUT_S)
    except OSError as error:
        raise NodeError(f"the node does not answer ({error}): is it running?") from None
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield DirectClient(sock)


def _check(error: ErrorCode, doing: str, *, said: str | None = None) -> None:
    if error is not ErrorCode.NONE:
        raise NodeError(f"{doing}: {said or error.explanation} ({error.name})")


def _message(topic: str, partition: int, record: Record) -> Message:
    return Message(
        topic,
        partition,
        record.offset,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        timestamp_ms=record.timestamp,
    )

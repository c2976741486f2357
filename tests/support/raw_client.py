"""A small blocking Kafka client for tests: one socket, one attempt per operation, no retries.

A client library that repeats a request by itself can't tell what became of it; this one never
does. `ConnectionLost` therefore means *unknown*, an error code means what it says, and whatever is
sent is sent exactly as given, lies included.
"""

from __future__ import annotations

import socket
from collections import deque
from types import TracebackType
from typing import Any

from tests.support.eventually import RanOutOfTime
from tests.support.node_driver import batch_of, produce_request
from tests.support.node_process import RunningNode

from tidelog.broker.apis.versions import SERVED
from tidelog.model.errors import ErrorCode
from tidelog.wire.batch import BatchHeader, has_valid_crc, iter_batches
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceRequest
from tidelog.wire.records import decode_records
from tidelog.wire.requests import decode_response, encode_request
from tidelog.wire.schema import schema_of

TIMEOUT_S = 120.0
"""Longer than anything a healthy node takes, even on a busy machine."""

EARLIEST = -2
LATEST = -1

_MAX_OPENED_BYTES = 1 << 28
_BY_NAME_FETCH = 12
_BY_NAME_PRODUCE = 9


class ConnectionLost(Exception):
    """The node closed the connection or is gone: what was asked may or may not have happened."""


class NoAnswerInTime(ConnectionLost, RanOutOfTime):
    """It is not known whether the node is gone: it was silent for longer than it may be."""


def _lost(error: OSError) -> ConnectionLost:
    return (
        NoAnswerInTime(str(error))
        if isinstance(error, TimeoutError)
        else ConnectionLost(str(error))
    )


class RawClient:
    """One connection. `request` for question and answer; `send` and `receive` to go apart."""

    def __init__(self, node: RunningNode, *, receive_buffer_bytes: int | None = None) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(TIMEOUT_S)
        try:
            self._socket.connect((node.host, node.port))
        except OSError as error:
            self._socket.close()
            raise _lost(error) from None
        self._expected: deque[tuple[int, int, int]] = deque()
        self._next_correlation = 1

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def set_timeout(self, seconds: float) -> None:
        """For those who expect to wait in vain."""
        self._socket.settimeout(seconds)

    # --- bytes --------------------------------------------------------------------------------

    def send_bytes(self, data: bytes | bytearray | memoryview) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise _lost(error) from None

    def receive_bytes(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                more = self._socket.recv(min(size - len(data), 1 << 20))
            except OSError as error:
                raise _lost(error) from None
            if not more:
                raise ConnectionLost("the node closed the connection")
            data += more
        return bytes(data)

    def receive_frame(self) -> bytes:
        return self.receive_bytes(int.from_bytes(self.receive_bytes(4), "big"))

    def is_closed_by_node(self) -> bool:
        """Waits for the node to close the connection; false if it says something instead."""
        try:
            return not self._socket.recv(1)
        except ConnectionError:
            return True

    # --- requests -----------------------------------------------------------------------------

    def encode(self, request: Any, version: int | None = None) -> bytes:
        """The request's frame, with the next correlation id; its answer is expected next."""
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        chosen = SERVED[api_key].max_version if version is None else version
        correlation = self._next_correlation
        self._next_correlation += 1
        self._expected.append((correlation, api_key, chosen))
        return encode_request(request, chosen, correlation_id=correlation, client_id="raw")

    def send(self, request: Any, version: int | None = None) -> None:
        self.send_bytes(self.encode(request, version))

    def send_unanswered(self, request: Any, version: int | None = None) -> None:
        """A request that gets no answer: a produce with acks=0."""
        frame = self.encode(request, version)
        self._expected.pop()
        self.send_bytes(frame)

    def receive(self) -> Any:
        """The next response: always to the oldest request that is not answered yet."""
        correlation, api_key, version = self._expected.popleft()
        answered, response = decode_response(api_key, version, memoryview(self.receive_frame()))
        assert answered == correlation, "responses are not in the order of their requests"
        return response

    def request(self, request: Any, version: int | None = None) -> Any:
        self.send(request, version)
        return self.receive()

    # --- operations ---------------------------------------------------------------------------

    def ping(self) -> None:
        """Proof of life: a request that touches no partition."""
        assert self.request(ApiVersionsRequest()).error_code is ErrorCode.NONE

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=setting.replace("_", "."), value=value)
                for setting, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(TIMEOUT_S * 1000))
        answer = self.request(request).topics[0]
        assert answer.error_code is ErrorCode.NONE, answer

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], timeout_ms=int(TIMEOUT_S * 1000)
        )
        answer = self.request(request).responses[0]
        assert answer.error_code is ErrorCode.NONE, answer

    def topics(self) -> dict[str, int]:
        """Every topic's number of partitions."""
        response = self.request(MetadataRequest(topics=None))
        return {topic.name: len(topic.partitions) for topic in response.topics}

    def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = -1
    ) -> PartitionProduceResponse:
        return self.produce_batch(topic, batch_of(*values), partition=partition, acks=acks)

    def produce_batch(
        self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1
    ) -> PartitionProduceResponse:
        """One attempt to append `records`, whatever they are."""
        request = patient_produce(topic, records, partition=partition, acks=acks)
        response = self.request(request, _BY_NAME_PRODUCE)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    def must_produce(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """The offset of the first value, which is acknowledged."""
        answer = self.produce(topic, *values, partition=partition)
        assert answer.error_code is ErrorCode.NONE, answer
        return answer.base_offset

    def init_producer_id(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = self.request(request)
        assert response.error_code is ErrorCode.NONE, response
        return response.producer_id, response.producer_epoch

    def fetch(self, topic: str, offset: int, **options: int) -> PartitionData:
        """One fetch of one partition; options as of `fetch_request`."""
        response = self.request(fetch_request(topic, offset, **options), _BY_NAME_FETCH)
        assert response.error_code is ErrorCode.NONE, response
        data: PartitionData = response.responses[0].partitions[0]
        return data

    def end_offset(self, topic: str, partition: int = 0, timestamp: int = LATEST) -> int:
        request = list_offsets_request(topic, timestamp, partition)
        answer = self.request(request).topics[0].partitions[0]
        assert answer.error_code is ErrorCode.NONE, answer
        offset: int = answer.offset
        return offset

    def read(self, topic: str, partition: int = 0) -> dict[int, bytes | None]:
        """Every record of the partition, by offset. Damage is not expected."""
        values, unreadable = self.read_around_damage(topic, partition)
        assert not unreadable, f"offsets that can't be read: {unreadable}"
        return values

    def read_batches(self, topic: str, partition: int = 0) -> list[BatchHeader]:
        """The header of every batch, for records that nobody could open. Checksums are checked."""
        headers: list[BatchHeader] = []
        start, end = self.end_offset(topic, partition, EARLIEST), self.end_offset(topic, partition)
        offset = start
        while offset < end:
            data = self.fetch(topic, offset, partition=partition)
            assert data.error_code is ErrorCode.NONE, data
            assert isinstance(data.records, memoryview)
            for header, batch in iter_batches(data.records):
                assert has_valid_crc(batch, header)
                # The log may begin in the middle of a batch.
                assert header.base_offset <= offset <= header.last_offset
                assert offset in (header.base_offset, start)
                headers.append(header)
                offset = header.next_offset
        return headers

    def read_around_damage(
        self, topic: str, partition: int = 0
    ) -> tuple[dict[int, bytes | None], list[int]]:
        """What can be read, and the offsets that are answered with CORRUPT_MESSAGE."""
        values: dict[int, bytes | None] = {}
        unreadable: list[int] = []
        offset, end = self.end_offset(topic, partition, EARLIEST), self.end_offset(topic, partition)
        while offset < end:
            data = self.fetch(topic, offset, partition=partition)
            if data.error_code is ErrorCode.CORRUPT_MESSAGE:
                unreadable.append(offset)
                offset += 1
                continue
            assert data.error_code is ErrorCode.NONE, data
            records = opened(data)
            assert records, f"nothing at offset {offset} below the end {end}"
            values.update(records)
            offset = max(records) + 1
        return values, unreadable


def error_of_produce(client: RawClient) -> ErrorCode | None:
    """What the answer says that is waited for; None if the connection was closed instead."""
    try:
        answer = client.receive().responses[0].partition_responses[0]
    except ConnectionLost:
        return None
    error: ErrorCode = answer.error_code
    return error


def opened(data: PartitionData) -> dict[int, bytes | None]:
    """The values in a fetch's answer, by offset. Checksums are checked."""
    assert isinstance(data.records, memoryview)
    return {
        record.offset: record.value
        for _, batch in iter_batches(data.records)
        for record in decode_records(batch, _MAX_OPENED_BYTES)
    }


def list_offsets_request(topic: str, timestamp: int, partition: int = 0) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )


def patient_produce(
    topic: str, records: bytes, *, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    """With time enough for a flush on a machine that has other things to do."""
    timeout_ms = int(TIMEOUT_S * 1000)
    return produce_request(topic, records, partition=partition, acks=acks, timeout_ms=timeout_ms)


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 26,
) -> FetchRequest:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )

"""What the benchmark asks of a server outside the measured windows: topics and their ends."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.bench.frames import CLIENT_ID, PRODUCE_VERSION
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.requests import decode_response, encode_request
from tidelog.wire.schema import schema_of

CREATE_TOPICS_VERSION = 5
DELETE_TOPICS_VERSION = 4
LIST_OFFSETS_VERSION = 7
METADATA_VERSION = 9
_LATEST = -1
_TIMEOUT_SECONDS = 30.0


class WrongAnswer(Exception):
    """The server answered, but not what a benchmark can go on with."""


class Admin:
    """One blocking connection. Not for anything that is timed by the microsecond."""

    def __init__(self, host: str, port: int) -> None:
        self._sock = socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def ask(self, request: Any, version: int) -> Any:
        """The body of the answer."""
        return self.ask_all([request], version)[0]

    def ask_all(self, requests: Sequence[Any], version: int) -> list[Any]:
        """Requests of one kind, all sent before the first answer is read."""
        self.send_all(requests, version)
        return self.receive_all(requests, version)

    def send_all(self, requests: Sequence[Any], version: int) -> None:
        frames = [
            encode_request(request, version, correlation_id=1, client_id=CLIENT_ID)
            for request in requests
        ]
        self._sock.sendall(b"".join(frames))

    def receive_all(self, requests: Sequence[Any], version: int) -> list[Any]:
        """The answers to `requests`, which were sent before."""
        answers = []
        for request in requests:
            (size,) = struct.unpack(">i", self._read(4))
            api_key = schema_of(type(request)).api_key
            assert api_key is not None
            answers.append(decode_response(api_key, version, memoryview(self._read(size)))[1])
        return answers

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._sock.recv(size - len(received))
            if not chunk:
                raise WrongAnswer("the server closed the connection")
            received += chunk
        return bytes(received)

    def create_topic(self, topic: str, *, partitions: int, settings: Mapping[str, str]) -> None:
        """Create it and wait until every partition has a leader."""
        configs = [CreatableTopicConfig(name=name, value=text) for name, text in settings.items()]
        answer = self.ask(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=topic,
                        num_partitions=partitions,
                        replication_factor=1,
                        configs=configs,
                    )
                ]
            ),
            CREATE_TOPICS_VERSION,
        )
        expect_none(answer.topics[0].error_code, f"creating topic {topic}")
        self._await_leaders(topic, partitions)

    def _await_leaders(self, topic: str, partitions: int) -> None:
        """Metadata may name leaders that do not lead yet; only one that knows its end does."""
        give_up = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            try:
                self.records_in(topic, partitions)
            except WrongAnswer:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.02)
            else:
                return

    def delete_topic(self, topic: str) -> None:
        answer = self.ask(
            DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), DELETE_TOPICS_VERSION
        )
        expect_none(answer.responses[0].error_code, f"deleting topic {topic}")

    def partitions_of(self, topic: str) -> int:
        """How many the topic has; 0 if there is no such topic."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        return len(self.ask(request, METADATA_VERSION).topics[0].partitions)

    def records_in(
        self, topic: str, partitions: int = 0, *, indexes: Sequence[int] | None = None
    ) -> int:
        """The sum of the partitions' end offsets: how many records the log really has. All
        `partitions`, or those of `indexes`."""
        answer = self.ask(
            ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
                            for index in (range(partitions) if indexes is None else indexes)
                        ],
                    )
                ],
            ),
            LIST_OFFSETS_VERSION,
        )
        found = answer.topics[0].partitions
        for partition in found:
            expect_none(partition.error_code, f"the end of {topic}-{partition.partition_index}")
        return sum(partition.offset for partition in found)


def check_produce_response(response: bytes) -> None:
    """`WrongAnswer` if the response (without its length) refuses the records."""
    _, body = decode_response(0, PRODUCE_VERSION, memoryview(response))
    expect_none(body.responses[0].partition_responses[0].error_code, "producing")


def expect_none(code: ErrorCode, doing: str) -> None:
    """`WrongAnswer` unless all is well."""
    if code != ErrorCode.NONE:
        raise WrongAnswer(f"{doing}: {code.name}")

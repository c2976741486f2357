"""What librdkafka's admin client has no call for, asked over a connection of our own.

A few requests only, so that each may be as plain as it is: connect, learn which versions the broker
serves, ask once, close. No TLS and no SASL: with those the question is refused, in words.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from typing import Any

from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError, GroupError, NoBroker, no_broker
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages import API_BY_KEY
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.requests import decode_response, encode_request
from tidelog.wire.schema import schema_of

Address = tuple[str, int]

_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_PAUSE_S = 0.1
"""Before a coordinator that was not ready is asked again."""

_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def is_possible(connection: Connection) -> bool:
    """Neither TLS nor SASL stands between."""
    return str(connection.options.get("security.protocol", "plaintext")).lower() == "plaintext"


def partition_sizes(
    connection: Connection, address: Address, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The bytes each partition takes on the node at `address`, of those that it has."""
    topics = [
        DescribableLogDirTopic(topic=topic, partitions=numbers)
        for topic, numbers in _by_topic(partitions).items()
    ]
    answer = ask(connection, address, DescribeLogDirsRequest(topics=topics))
    return {
        TopicPartition(topic.name, row.partition_index): row.partition_size
        for directory in answer.results
        for topic in directory.topics
        for row in topic.partitions
        if not row.is_future_key
    }


def delete_offsets(
    connection: Connection, group: str, partitions: Iterable[TopicPartition]
) -> None:
    """The group forgets what it has committed for these; a `GroupError` for the first it keeps."""
    if not is_possible(connection):
        raise ClientError(
            "offsets of a group can't be deleted over TLS or SASL from here: "
            "use `kafka-consumer-groups --delete-offsets`"
        )
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in numbers],
            )
            for topic, numbers in _by_topic(partitions).items()
        ],
    )
    answer = _ask_coordinator(connection, group, request)
    _raise_if_refused(group, answer.error_code)
    for topic in answer.topics:
        for row in topic.partitions:
            _raise_if_refused(group, row.error_code, topic=topic.name)


def _raise_if_refused(group: str, code: ErrorCode, *, topic: str = "") -> None:
    if code is ErrorCode.NONE:
        return
    if code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        raise GroupError(f"group {group!r} reads topic {topic!r} at this moment: stop it first")
    raise GroupError(f"group {group!r}: {code.explanation} ({code.name})")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


# --- asking -----------------------------------------------------------------------------------


def _ask_coordinator(connection: Connection, group: str, request: Any) -> Any:
    """Asked again while it is not ready: after a restart it reads the offsets first."""
    deadline = time.monotonic() + connection.timeout_s
    while True:
        code, address = _coordinator(connection, group)
        if code is ErrorCode.NONE:
            answer = ask(connection, address, request)
            if answer.error_code not in _NOT_READY:
                return answer
        elif code not in _NOT_READY:
            _raise_if_refused(group, code)
        if time.monotonic() >= deadline:
            raise GroupError(f"the coordinator of group {group!r} was not ready in time: try again")
        time.sleep(_PAUSE_S)


def _coordinator(connection: Connection, group: str) -> tuple[ErrorCode, Address]:
    request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
    for address in connection.addresses():
        try:
            answer = ask(connection, address, request)
        except NoBroker:
            continue
        row = answer.coordinators[0] if answer.coordinators else answer
        return row.error_code, (row.host, row.port)
    raise no_broker(connection.bootstrap)


def ask_any(connection: Connection, request: Any) -> Any:
    """Whoever of the bootstrap addresses answers first; any node hands on what is not for it."""
    for address in connection.addresses():
        try:
            return ask(connection, address, request)
        except NoBroker:
            continue
    raise no_broker(connection.bootstrap)


def ask(connection: Connection, address: Address, request: Any) -> Any:
    """One question to the node at `address`, in the newest version both know."""
    try:
        with socket.create_connection(address, timeout=connection.timeout_s) as line:
            served = _exchange(line, ApiVersionsRequest(), version=0).api_keys
            api = API_BY_KEY[_key_of(request)]
            there = {row.api_key: row for row in served}.get(api.key)
            version = min(api.max_version, there.max_version) if there is not None else -1
            if there is None or version < max(api.min_version, there.min_version):
                raise ClientError(f"the broker at {address[0]}:{address[1]} can't {api.name}")
            return _exchange(line, request, version=version)
    except (OSError, EOFError):
        raise no_broker(f"{address[0]}:{address[1]}") from None
    except DecodeError as error:
        raise ClientError(f"{address[0]}:{address[1]} gave no sensible answer: {error}") from None


def _exchange(line: socket.socket, request: Any, *, version: int) -> Any:
    line.sendall(encode_request(request, version, correlation_id=version, client_id="tidelog"))
    size = int.from_bytes(_receive(line, 4), "big")
    if size > _MAX_ANSWER_BYTES:
        raise DecodeError(f"an answer of {size} bytes")
    _, answer = decode_response(_key_of(request), version, memoryview(_receive(line, size)))
    return answer


def _key_of(request: Any) -> int:
    key = schema_of(type(request)).api_key
    assert key is not None
    return key


def _receive(line: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = line.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)

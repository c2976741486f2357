"""Requests that nobody in his right mind would send: drawn from the schema, then damaged.

Two kinds of nonsense reach different code. A *well-formed* request with odd values (partition
-2³¹, a batch that lies, a session of somebody else) gets through the decoder to the handlers; one
with a few bytes changed tries the decoder itself. The same seed gives the same frames.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from tests.support.node_driver import batch_of

from tidelog.broker.apis.versions import SERVED
from tidelog.model.errors import ErrorCode
from tidelog.wire.batch import read_header, seal, write_header
from tidelog.wire.messages import API_BY_KEY
from tidelog.wire.requests import encode_request
from tidelog.wire.schema import FieldSchema, WireType, schema_of

_FOR_CLIENTS = [row for row in SERVED.values() if row.is_advertised]
"""What nodes say to one another is not nonsense, however odd: it is believed."""

_LENGTH = struct.Struct(">i")
_WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED = {"uint16": 16, "uint32": 32}
_SMALL = (-3, -2, -1, 0, 1, 2, 3, 100, 1000)
_NAMES: Sequence[str] = (
    *["odd"] * 9,
    "odder",
    "",
    ".",
    "..",
    "a/b",
    "\0",
    "x" * 249,
    "x" * 250,
    "é",
    "__",
)
_DOOMED = ("odder", "odder", "", "..", "x" * 249, "é")
_DELETE_TOPICS = 20
_AIMED = {
    "max_wait_ms": (-1, 0, 1, 50),
    "timeout_ms": (-1, 0, 1, 50, 5000),
    "num_partitions": (-1, 0, 1, 1, 3),
    "replication_factor": (-1, 0, 1, 1, 3),
    "index": (0, 1, 2),
    "partition": (0, 1, 2),
    "partition_index": (0, 1, 2),
    "acks": (-1, 0, 1),
}
"""What would hardly ever be hit by chance, or would take too long if it were."""


class OddRequests:
    """An endless source of frames, about topic `odd`, which is not deleted, and others.

    `topic_ids` are ids that the node really has.
    """

    def __init__(self, seed: int, *, topic_ids: list[UUID]) -> None:
        self._random = Random(seed)
        self._known_ids = topic_ids
        self._topic_ids: list[UUID] = []
        self._names = _NAMES
        self._correlation = 0

    def frame(self) -> bytes:
        """A whole frame, length prefix included; a third of them is damaged."""
        frame = self._well_formed()
        return self._damaged(frame) if self._random.random() < 0.33 else frame

    # --- well-formed --------------------------------------------------------------------------

    def _well_formed(self) -> bytes:
        random = self._random
        served = random.choice(_FOR_CLIENTS)
        version = random.randint(max(served.min_version, served.first_handled), served.max_version)
        is_deletion = served.key == _DELETE_TOPICS
        self._names = _DOOMED if is_deletion else _NAMES
        self._topic_ids = [] if is_deletion else self._known_ids
        request = self._instance(API_BY_KEY[served.key].request_class, version, depth=0)
        self._correlation += 1
        return encode_request(
            request, version, correlation_id=self._correlation, client_id=random.choice(_NAMES)
        )

    def _instance(self, cls: type[Any], version: int, *, depth: int) -> Any:
        fields = {
            field.name: self._field(field, version, depth)
            for field in schema_of(cls).fields
            if field.versions.holds(version)
        }
        return cls(**fields)

    def _field(self, field: FieldSchema, version: int, depth: int) -> Any:
        random = self._random
        if field.nullable.holds(version) and random.random() < 0.2:
            return None
        if field.name in _AIMED and random.random() < 0.9:
            return random.choice(_AIMED[field.name])
        return self._value(field.type, version, depth)

    def _value(self, wire_type: WireType, version: int, depth: int) -> Any:
        random, kind = self._random, wire_type.kind
        if kind == "struct":
            assert wire_type.struct is not None
            return self._instance(wire_type.struct, version, depth=depth + 1)
        if kind == "array":
            assert wire_type.element is not None
            count = random.choice((0, 1, 1, 2, 5))
            return [self._value(wire_type.element, version, depth) for _ in range(count)]
        if kind in _WIDTHS:
            return self._integer(-(1 << _WIDTHS[kind] - 1), (1 << _WIDTHS[kind] - 1) - 1)
        if kind in _UNSIGNED:
            return self._integer(0, (1 << _UNSIGNED[kind]) - 1)
        return self._other(kind)

    def _other(self, kind: str) -> Any:
        random = self._random
        if kind == "string":
            return random.choice(self._names)
        if kind == "bool":
            return random.random() < 0.5
        if kind == "uuid":
            return random.choice([UUID(int=0), UUID(int=random.getrandbits(128)), *self._topic_ids])
        if kind == "records":
            return self._records()
        if kind == "bytes":
            return random.randbytes(random.choice((0, 1, 50)))
        assert kind == "error_code", kind
        return ErrorCode.NONE

    def _integer(self, low: int, high: int) -> int:
        random = self._random
        if random.random() < 0.75:
            return max(low, min(high, random.choice(_SMALL)))
        return random.choice((low, low + 1, high - 1, high, random.randint(low, high)))

    def _records(self) -> bytes:
        """Batches, of which many have an odd header field, under a checksum that is right."""
        random = self._random
        batches = [self._batch() for _ in range(random.choice((1, 1, 1, 2, 70)))]
        records = b"".join(batches)
        return records[: random.randrange(len(records))] if random.random() < 0.1 else records

    def _batch(self) -> bytes:
        random = self._random
        batch = bytearray(
            batch_of(
                *[random.randbytes(random.choice((0, 3, 300)))] * random.choice((1, 1, 5)),
                producer_id=random.choice((-1, -1, 0, 5)),
                producer_epoch=random.choice((-1, 0, 0, 1)),
                base_sequence=random.choice((-1, 0, 0, 1, 2**31 - 1)),
            )
        )
        header = read_header(batch)
        if random.random() < 0.5:
            name = random.choice(header._fields)
            width = 64 if name in ("base_offset", "base_timestamp", "max_timestamp") else 32
            width = {"magic": 8, "attributes": 16, "producer_epoch": 16}.get(name, width)
            value = self._integer(-(1 << width - 1), (1 << width - 1) - 1)
            if name != "crc":
                write_header(batch, header._replace(**{name: value}))
        if random.random() < 0.95:
            seal(batch)
        return bytes(batch)

    # --- damaged ------------------------------------------------------------------------------

    def _damaged(self, frame: bytes) -> bytes:
        """A few bytes changed, removed, doubled or added; the length prefix is right again."""
        random = self._random
        body = bytearray(frame[4:])
        for _ in range(random.choice((1, 1, 2, 8))):
            at = random.randrange(len(body)) if body else 0
            action = random.randrange(6)
            if action == 0 and body:
                body[at] ^= 1 << random.randrange(8)
            elif action == 1 and body:
                body[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif action == 2:
                del body[at : at + random.choice((1, 4, 100))]
            elif action == 3:
                body[at:at] = random.randbytes(random.choice((1, 4, 100)))
            elif action == 4:
                body[at : at + 4] = random.choice((b"\x7f\xff\xff\xff", b"\xff" * 4, b"\x80\0\0\0"))
            else:
                body += body[at:]
        return _LENGTH.pack(max(8, len(body))) + bytes(body.ljust(8, b"\0"))

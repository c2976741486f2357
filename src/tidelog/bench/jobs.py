"""What a generator process is told to do: one frozen description each, passed as JSON.

The bytes to send are built by the parent and lie in a file, so that a generator imports nothing
of the protocol and spends its time on sockets.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class PumpJob:
    """Closed loop: every connection keeps `in_flight` of the frames in `frames_path` under way."""

    host: str
    port: int
    server_pid: int
    seconds: float
    frames_path: str
    connections: int
    in_flight: int
    records_per_request: int
    bytes_per_request: int
    requests: int = 0
    """Stop after so many instead of after `seconds`; 0 for no such limit."""

    start_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainJob:
    """Closed loop of fetches over a log of equal batches, one fetch under way per connection.

    `frames_path` holds one Fetch request; its offset lies at `offset_position`. Connections begin
    `stride` offsets apart and go round at `end_offset`; 0 means to follow the log's tail.
    """

    host: str
    port: int
    server_pid: int
    seconds: float
    frames_path: str
    offset_position: int
    connections: int
    batch_bytes: int
    batch_records: int
    batch_data_bytes: int
    end_offset: int
    start_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceJob:
    """Open loop: `rate` requests a second, each timed from when it was due.

    The frames in `frames_path` are sent in turn, on the `connections` in turn."""

    host: str
    port: int
    server_pid: int
    seconds: float
    frames_path: str
    rate: int
    connections: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProduceJob:
    """librdkafka producing records of `value_bytes` as fast as it can, or at `rate` a second."""

    bootstrap: str
    server_pid: int
    seconds: float
    topic: str
    partitions: int
    value_bytes: int
    acks: str
    rate: int = 0
    start_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConsumeJob:
    """librdkafka reading all partitions from the start, until `records` are read or time is up."""

    bootstrap: str
    server_pid: int
    seconds: float
    topic: str
    partitions: int
    value_bytes: int
    records: int
    start_at: float = 0.0


Job = PumpJob | DrainJob | PaceJob | ClientProduceJob | ClientConsumeJob

_KINDS: dict[str, type[Job]] = {
    kind.__name__: kind for kind in (PumpJob, DrainJob, PaceJob, ClientProduceJob, ClientConsumeJob)
}


def job_to_json(job: Job) -> str:
    """One line, for a command line."""
    return json.dumps({"kind": type(job).__name__, **asdict(job)})


def job_from_json(text: str) -> Job:
    """The reverse of `job_to_json`."""
    fields = json.loads(text)
    return _KINDS[fields.pop("kind")](**fields)


def write_frames(path: Path, frames: Sequence[bytes]) -> None:
    """Frames carry their own length prefix, so a file of them is just their sum."""
    with path.open("wb") as file:
        for frame in frames:
            file.write(frame)


def read_frames(path: Path) -> list[bytes]:
    """The reverse of `write_frames`."""
    data = path.read_bytes()
    frames, position = [], 0
    while position < len(data):
        size = 4 + _LENGTH.unpack_from(data, position)[0]
        frames.append(data[position : position + size])
        position += size
    return frames

"""Frames that are no requests: noise, lies about lengths, unknown APIs, requests cut short.

All the node owes them is a closed connection or an error, and to live on.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random

from tidelog.sim.workload.world import World
from tidelog.wire.messages import APIS
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.requests import LENGTH_BYTES, encode_request

_HEADER = struct.Struct(">hhih")


@dataclass(slots=True, frozen=True)
class GarbagePlan:
    kind: str
    frame: bytes


def sample(random: Random, world: World) -> GarbagePlan:
    kind = random.choice(("noise", "empty", "unknown api", "cut", "flipped", "huge array"))
    return GarbagePlan(kind, _FRAMES[kind](random))


def build(plan: GarbagePlan) -> bytes:
    """As it goes over the wire, without the length prefix."""
    return plan.frame


def classify(reason: str | None) -> str:
    """`reason` is why the connection closed; None if it is still open."""
    return "closed" if reason is not None else "still open"


def predict(plan: GarbagePlan) -> tuple[str, ...]:
    """A flipped bit may leave a sound request, which is answered: both ends are right."""
    return ("closed",) if plan.kind in ("empty", "unknown api") else ("closed", "still open")


def _noise(random: Random) -> bytes:
    return random.randbytes(random.randint(1, 200))


def _unknown_api(random: Random) -> bytes:
    return _HEADER.pack(random.choice((4, 999, -7)), random.randint(-3, 30), 1, -1) + b"\0" * 8


def _cut(random: Random) -> bytes:
    frame = _sound_request(random)
    return frame[: random.randint(1, len(frame) - 1)]


def _flipped(random: Random) -> bytes:
    frame = bytearray(_sound_request(random))
    position = random.randrange(len(frame))
    frame[position] ^= 1 << random.randrange(8)
    return bytes(frame)


def _huge_array(random: Random) -> bytes:
    api = random.choice(APIS)
    version = random.randint(api.min_version, api.max_version)
    length = random.choice((0x7FFFFFFF, -2, 0x00FFFFFF))
    body = struct.pack(">i", length) * random.randint(1, 6)
    return _HEADER.pack(api.key, version, 1, -1) + bytes(random.randint(0, 3)) + body


def _sound_request(random: Random) -> bytes:
    request = ProduceRequest(acks=-1, timeout_ms=100, topic_data=[])
    version = random.randint(3, 13)
    return encode_request(request, version, correlation_id=7, client_id="vandal")[LENGTH_BYTES:]


_FRAMES = {
    "noise": _noise,
    "empty": lambda random: b"",
    "unknown api": _unknown_api,
    "cut": _cut,
    "flipped": _flipped,
    "huge array": _huge_array,
}

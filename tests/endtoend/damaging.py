"""Ways to damage a partition's files while its node is down.

Every record is in a batch of its own, so what a piece of damage may cost is known exactly: the
offsets whose bytes are not what they were (`harmed_offsets`), and not one more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from tidelog.wire.batch import HEADER_BYTES, iter_batches

Damage = Callable[[Path, Random], None]

_LENGTH_AT = 8
_EPOCH_AT = 12
_MAGIC_AT = 16
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_DELTA_AT = 23


def log_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def batches_of(directory: Path) -> dict[int, tuple[str, int, bytes]]:
    """File, position and bytes of the batch at each offset."""
    found: dict[int, tuple[str, int, bytes]] = {}
    for path in log_files(directory):
        position = 0
        for header, batch in iter_batches(memoryview(path.read_bytes())):
            found[header.base_offset] = (path.name, position, bytes(batch))
            position += len(batch)
    return found


def harmed_offsets(before: dict[int, tuple[str, int, bytes]], directory: Path) -> list[int]:
    """Which of the batches are not what they were, where they were."""
    now = {path.name: path.read_bytes() for path in log_files(directory)}
    return [
        offset
        for offset, (name, position, batch) in before.items()
        if now.get(name, b"")[position : position + len(batch)] != batch
    ]


def _change(path: Path, position: int, random: Random) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def flip_in(part: int | None, *, segment: int) -> Damage:
    """One bit of a batch within the segment: at `part` of its header, or in its payload."""

    def damage(directory: Path, random: Random) -> None:
        path = log_files(directory)[segment]
        inside = [place for place in batches_of(directory).values() if place[0] == path.name]
        _, position, batch = random.choice(inside[1:-1])
        at = random.randrange(HEADER_BYTES, len(batch)) if part is None else part
        _change(path, position + at, random)

    return damage


def flip_last_batch(directory: Path, random: Random) -> None:
    """The newest record, which a less careful log would take for a torn tail."""
    last = max(batches_of(directory).items())[1]
    _change(directory / last[0], last[1] + len(last[2]) - 1, random)


def wipe_some_bytes(directory: Path, random: Random) -> None:
    path = log_files(directory)[2]
    data = bytearray(path.read_bytes())
    at = random.randrange(100, len(data) - 700)
    data[at : at + 600] = bytes(600)
    path.write_bytes(data)


def zero_a_byte(segment: int) -> Damage:
    """One byte in the middle of a record's value, which was not zero, is zero now."""

    def damage(directory: Path, random: Random) -> None:
        path = log_files(directory)[segment]
        inside = [place for place in batches_of(directory).values() if place[0] == path.name]
        _, position, batch = random.choice(inside[1:-1])
        data = bytearray(path.read_bytes())
        at = position + len(batch) // 2
        assert data[at] != 0
        data[at] = 0
        path.write_bytes(data)

    return damage


def zero_a_page(segment: int) -> Damage:
    """4 KiB of zeros where batches were: a page that the disk has lost."""

    def damage(directory: Path, random: Random) -> None:
        path = log_files(directory)[segment]
        data = bytearray(path.read_bytes())
        at = random.randrange(100, len(data) - 4096 - 2000)
        data[at : at + 4096] = bytes(4096)
        path.write_bytes(data)

    return damage


def append_noise(segment: int) -> Damage:
    """Bytes behind the segment's last batch that nobody wrote there."""

    def damage(directory: Path, random: Random) -> None:
        path = log_files(directory)[segment]
        path.write_bytes(path.read_bytes() + random.randbytes(700))

    return damage


def shorten_log(segment: int) -> Damage:
    def damage(directory: Path, random: Random) -> None:
        path = log_files(directory)[segment]
        path.write_bytes(path.read_bytes()[: -random.randrange(50, 500)])

    return damage


def remove_segment(segment: int) -> Damage:
    def damage(directory: Path, random: Random) -> None:
        log_files(directory)[segment].unlink()

    return damage


def _rewrite(pattern: str, change: Callable[[bytes, Random], bytes | None]) -> Damage:
    """Each file of the pattern becomes what `change` makes of it; None deletes it."""

    def damage(directory: Path, random: Random) -> None:
        paths = sorted(directory.glob(pattern))
        assert paths, f"no {pattern} to damage"
        for path in paths:
            data = change(path.read_bytes(), random)
            if data is None:
                path.unlink()
            else:
                path.write_bytes(data)

    return damage


def _garbled(data: bytes, random: Random) -> bytes:
    return random.randbytes(max(8, len(data)))


def _cut_short(data: bytes, random: Random) -> bytes:
    return data[: len(data) // 2 + 1]


def _flipped(data: bytes, random: Random) -> bytes:
    changed = bytearray(data or bytes(1))
    for _ in range(4):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _one_slot_gone(data: bytes, random: Random) -> bytes:
    """Of the mark's two slots, the newer."""
    return _garbled(data, random)[:64] + data[64:]


def _deleted(data: bytes, random: Random) -> None:
    return None


def _emptied(data: bytes, random: Random) -> bytes:
    return b""


LOG_DAMAGE: dict[str, Damage] = {
    "a bit in a payload": flip_in(None, segment=1),
    "a bit in a base offset": flip_in(6, segment=1),
    "a bit in a length": flip_in(_LENGTH_AT + 2, segment=1),
    "a bit in a small length": flip_in(_LENGTH_AT + 3, segment=0),
    "a bit in an epoch": flip_in(_EPOCH_AT + 3, segment=1),
    "a bit in a magic": flip_in(_MAGIC_AT, segment=2),
    "a bit in a checksum": flip_in(_CRC_AT, segment=2),
    "a bit in the attributes": flip_in(_ATTRIBUTES_AT + 1, segment=0),
    "a bit in a last offset delta": flip_in(_DELTA_AT + 3, segment=2),
    "a bit in the active segment": flip_in(None, segment=-1),
    "a bit in the last batch": flip_last_batch,
    "six hundred bytes wiped": wipe_some_bytes,
    "a closed segment cut short": shorten_log(1),
    "the active segment cut short": shorten_log(-1),
    "the first segment gone": remove_segment(0),
    "a middle segment gone": remove_segment(2),
    "the active segment gone": remove_segment(-1),
}

DAMAGE_BEFORE_THE_TAIL: dict[str, Damage] = {
    "a bit in a closed segment": flip_in(None, segment=2),
    "a bit in a length in a closed segment": flip_in(_LENGTH_AT + 2, segment=1),
    "a bit in the last closed segment": flip_in(None, segment=-2),
    "a zero byte in the last closed segment": zero_a_byte(-2),
    "a page of zeros in a closed segment": zero_a_page(2),
    "noise behind a closed segment": append_noise(2),
    "a closed segment cut short": shorten_log(2),
    "the first segment gone": remove_segment(0),
    "a closed segment gone": remove_segment(2),
    "the last closed segment cut short": shorten_log(-2),
    "the last closed segment gone": remove_segment(-2),
    "a bit in the active segment": flip_in(None, segment=-1),
    "noise behind the active segment": append_noise(-1),
}
"""After each of these the log still shows how far it went: something whole follows the damage."""

DAMAGE_OF_THE_TAIL: dict[str, Damage] = {
    "a bit in the last batch": flip_last_batch,
    "the active segment cut short": shorten_log(-1),
    "the active segment gone": remove_segment(-1),
}
"""After a crash these look like a tail that was never flushed: only other copies know better."""

SIDE_DAMAGE: dict[str, Damage] = {
    f"{pattern} {name}": _rewrite(pattern, change)
    for pattern in ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint", "flushed")
    for name, change in (
        ("deleted", _deleted),
        ("emptied", _emptied),
        ("cut short", _cut_short),
        ("garbled", _garbled),
        ("flipped", _flipped),
    )
} | {
    "flushed half gone": _rewrite("flushed", _one_slot_gone),
    "bytes behind a closed segment": append_noise(1),
}

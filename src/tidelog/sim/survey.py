"""What lies on a disk, seen from outside the node: logs as bytes, and damage done to them.

A log is its `*.log` files one after the other. Damage is planted only where the node has no excuse
and no other copy: in closed segments, below the flushed mark, and never in the four bytes of the
leader epoch, which Kafka's format protects by no checksum. Bytes behind a closed segment's last
batch are damage, too, though they cost nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random

from tidelog.log.marks import Mark, MarkFile, marks_in
from tidelog.log.paths import EPOCHS, INDEX, LOG, SNAPSHOT, TIME_INDEX, offset_path, offsets_of
from tidelog.sim.disk import SimDisk
from tidelog.sim.images import FileImage
from tidelog.wire.batch import BatchHeader, has_valid_crc, iter_batches
from tidelog.wire.errors import DecodeError

TOPICS = "topics"
_LOG_ENDING = f".{LOG}"
_LEADER_EPOCH_BYTES = range(12, 16)
_REBUILDABLE = (INDEX, TIME_INDEX, SNAPSHOT, EPOCHS)


@dataclass(slots=True, frozen=True)
class LogBytes:
    """One log before a crash: what was written, and how much of that had been synced."""

    written: bytes
    synced: bytes
    has_closed_segments: bool = False
    """There was more than the segment in use."""

    def flipped(self, at: int, bit: int) -> LogBytes:
        """The same log after somebody has flipped a bit of it."""
        written, synced = _flipped(self.written, at, bit), _flipped(self.synced, at, bit)
        return replace(self, written=written, synced=synced)

    def lengthened(self, at: int, data: bytes) -> LogBytes:
        """The same log after somebody has put bytes into it, where all before is synced."""
        return replace(
            self,
            written=self.written[:at] + data + self.written[at:],
            synced=self.synced[:at] + data + self.synced[at:],
        )


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    if at >= len(data):
        return data
    return data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :]


def partition_directories(disk: SimDisk) -> list[str]:
    return [
        f"{TOPICS}/{topic}/{partition}"
        for topic in disk.list(TOPICS)
        for partition in disk.list(f"{TOPICS}/{topic}")
    ]


def written_logs(disk: SimDisk) -> dict[str, bytes]:
    """Each log as reads see it, by directory."""
    return {directory: log.written for directory, log in logs_before_crash(disk).items()}


def logs_before_crash(disk: SimDisk) -> dict[str, LogBytes]:
    """Taken at the last moment of a life.

    A log's synced part ends with the first file of it that is not durable to its end: what is
    durable beyond that has nothing to follow.
    """
    durable = disk.files(durable=True, ending=_LOG_ENDING)
    logs: dict[str, tuple[bytearray, bytearray]] = {}
    segments: Counter[str] = Counter()
    ended: list[str] = []
    for path, image in disk.files(ending=_LOG_ENDING).items():
        directory, _, _ = path.rpartition("/")
        written, synced = logs.setdefault(directory, (bytearray(), bytearray()))
        written += image.cached
        segments[directory] += 1
        if directory in ended:
            continue
        found = durable.get(path)
        prefix = _common_prefix(image.cached, b"" if found is None else found.durable)
        if len(prefix) < len(image.cached):
            prefix = prefix[: _whole_batches(image.cached, len(prefix))]
            ended.append(directory)
        synced += prefix
    return {
        d: LogBytes(bytes(written), bytes(synced), has_closed_segments=segments[d] > 1)
        for d, (written, synced) in logs.items()
    }


def _whole_batches(data: bytearray, size: int) -> int:
    """How many of the first `size` bytes are whole batches: single sectors reach the platter by
    luck, and zeros of an earlier crash may look like the first bytes of what follows."""
    position = 0
    for header in headers_of(bytes(data)):
        if header is None or position + header.size > size:
            break
        position += header.size
    return position


def _common_prefix(left: bytes | bytearray, right: bytes | bytearray) -> bytes | bytearray:
    size = min(len(left), len(right))
    if left[:size] == right[:size]:
        return left[:size]
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle
    return left[:low]


def headers_of(data: bytes) -> list[BatchHeader | None]:
    """The batches of a log, as far as they can be told apart; None for one that is not sound."""
    headers: list[BatchHeader | None] = []
    try:
        for header, batch in iter_batches(memoryview(data)):
            headers.append(header if has_valid_crc(batch, header) else None)
    except DecodeError:
        headers.append(None)
    return headers


@dataclass(slots=True, frozen=True)
class PlantedDamage:
    """One flipped bit, in the batch with these offsets. `log_position` counts from the begin of
    the log's first file."""

    path: str
    position: int
    log_position: int
    bit: int
    first_offset: int
    last_offset: int


def plant_damage(
    disk: SimDisk, directory: str, random: Random, *, only_closed: bool = True
) -> PlantedDamage | None:
    """Flip one bit of one batch below the flushed mark; None if the log has none to spare.

    Of a partition only closed segments are touched: the producers of their batches are in a
    snapshot, so the node has no excuse to forget them.
    """
    mark = _lasting_mark(disk, directory)
    if mark is None:
        return None
    bases = offsets_of(disk.list(directory), LOG)
    eligible = [base for base in bases if base < mark.segment_base + (not only_closed)]
    if not eligible:
        return None
    base = random.choice(eligible)
    path = offset_path(directory, base, LOG)
    files = disk.files()
    image = files[path]
    limit = mark.position if base == mark.segment_base else len(image.cached)
    found = _choose_batch(bytes(image.cached[:limit]), random)
    if found is None:
        return None
    start, header = found
    offset = random.choice([n for n in range(header.size) if n not in _LEADER_EPOCH_BYTES])
    position = start + offset
    bit = 1 << random.randrange(8)
    flip(image, position, bit)
    before = sum(len(files[offset_path(directory, b, LOG)].cached) for b in bases if b < base)
    return PlantedDamage(
        path=path,
        position=position,
        log_position=before + position,
        bit=bit,
        first_offset=header.base_offset,
        last_offset=header.last_offset,
    )


@dataclass(slots=True, frozen=True)
class PlantedBytes:
    """What was appended to a closed segment whose last record is at `last_offset`."""

    path: str
    log_position: int
    data: bytes
    last_offset: int


def plant_bytes_behind(disk: SimDisk, directory: str, random: Random) -> PlantedBytes | None:
    """Append a few bytes to a closed segment below the flushed mark; None if the log has none, or a
    power failure could still take the mark back: then the segment's end is an unflushed tail."""
    mark = _lasting_mark(disk, directory)
    bases = offsets_of(disk.list(directory), LOG)
    eligible = [base for base in bases if mark is not None and base < mark.segment_base]
    if not eligible:
        return None
    base = random.choice(eligible)
    files = disk.files()
    path = offset_path(directory, base, LOG)
    image = files[path]
    following = next((other for other in bases if other > base), None)
    is_durable = image.cached == image.durable
    if following is None or image.pending or not is_durable:
        return None
    size = random.choice((1, 40, 200))
    data = random.choice((random.randbytes(size), bytes(size)))
    end = sum(len(files[offset_path(directory, b, LOG)].cached) for b in bases if b <= base)
    for content in (image.cached, image.durable):
        content += data
    return PlantedBytes(path, log_position=end, data=data, last_offset=following - 1)


def _lasting_mark(disk: SimDisk, directory: str) -> Mark | None:
    """The newest flushed mark that no power failure takes back: above it, damage and a tear look
    alike to a node that loses its power, perhaps while it starts."""
    image = disk.files().get(MarkFile(disk, directory).path)
    return None if image is None else max(marks_in(bytes(image.durable)), default=None)


def _choose_batch(data: bytes, random: Random) -> tuple[int, BatchHeader] | None:
    """A batch and its position; None if the data is not sound from begin to end."""
    batches: list[tuple[int, BatchHeader]] = []
    position = 0
    for header in headers_of(data):
        if header is None:
            return None
        batches.append((position, header))
        position += header.size
    return random.choice(batches) if batches else None


def flip(image: FileImage, position: int, bit: int) -> None:
    """On the platter and in the cache. Doing it twice undoes it."""
    for data in (image.cached, image.durable):
        if position < len(data):
            data[position] ^= bit


def spoil_rebuildable(
    disk: SimDisk, directory: str, random: Random, *, has_damage: bool
) -> str | None:
    """Delete, cut short or damage a file that the log must be able to do without (S6).

    Of a log that `has_damage` the snapshots are spared: for the producers of a damaged batch they
    are the only copy left.
    """
    kinds = [kind for kind in _REBUILDABLE if not (has_damage and kind == SNAPSHOT)]
    paths = [
        f"{directory}/{name}" for name in disk.list(directory) if name.rpartition(".")[2] in kinds
    ]
    if not paths:
        return None
    path = random.choice(paths)
    image = disk.files()[path]
    how = random.choice(("deleted", "cut", "flipped"))
    if how == "deleted" or not image.cached:
        disk.take_away(path)
        return f"{path} deleted"
    position = random.randrange(len(image.cached))
    if how == "flipped":
        flip(image, position, 1 << random.randrange(8))
        return f"{path} damaged at byte {position}"
    for data in (image.cached, image.durable):
        del data[position:]
    image.pending = []
    return f"{path} cut to {position} bytes"

"""Somebody who looks over the coordinators' shoulders: at what they answer, and at their disk (G4).

Every request about groups is kept until its answer leaves the node; at that moment whatever the
answer says must be on the platter, for the next moment the power may fail. Now and then, the state
of every coordinator is compared with what another one makes of the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tidelog.broker.effects import SendResponse
from tidelog.broker.image_topics import ImageTopics
from tidelog.broker.offsets_log import OFFSETS_TOPIC
from tidelog.broker.state import group_settings
from tidelog.groups.coordinator import Coordinator
from tidelog.log.paths import LOG, SWAP, offset_path, swaps_of
from tidelog.model.ids import ConnectionId
from tidelog.sim.checkers.committed import Ledger, check_state
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.disk import SimDisk
from tidelog.sim.host import Host, Life
from tidelog.sim.images import FileImage
from tidelog.sim.survey import TOPICS
from tidelog.wire.batch import BatchHeader, has_valid_crc, iter_batches
from tidelog.wire.errors import DecodeError
from tidelog.wire.records import Record, decode_records
from tidelog.wire.requests import (
    LENGTH_BYTES,
    RequestHeader,
    decode_body,
    decode_header,
    decode_response,
)

_GROUP_APIS = (8, 9, 11, 14, 68)
"""OffsetCommit, OffsetFetch, JoinGroup, SyncGroup, ConsumerGroupHeartbeat."""

_STEPS_PER_LOOK = 60
_MAX_BATCH_BYTES = 1 << 20


class Witness:
    """Of one host. `report` is told what is wrong."""

    def __init__(self, host: Host, report: Callable[[Finding], None]) -> None:
        self._host = host
        self._report = report
        self._asked: dict[tuple[ConnectionId, int], tuple[RequestHeader, Any]] = {}
        self._ledger = Ledger()
        self._read_up_to: dict[FileImage, int] = {}
        self._syncs_seen = -1
        self._replays: dict[int, _Replay] = {}
        host.on_request.append(self._note_request)
        host.on_response.append(self._check_response)
        host.on_step.append(self._look_now_and_then)
        host.on_start.append(self._begin_anew)

    def _begin_anew(self) -> None:
        """Requests of a dead life are not answered, and a recovery may have cut its logs."""
        self._asked = {}
        self._read_up_to = {}
        self._syncs_seen = -1
        self._replays = {}

    # --- answers ---------------------------------------------------------------------------------

    def _note_request(self, connection: ConnectionId, frame: bytes) -> None:
        if int.from_bytes(frame[:2], "big", signed=True) not in _GROUP_APIS:
            return
        try:
            header, position = decode_header(memoryview(frame))
            body = decode_body(header, memoryview(frame), position)
        except DecodeError:
            return  # garbage; the node's to refuse
        self._asked[connection, header.correlation_id] = (header, body)

    def _check_response(self, effect: SendResponse) -> None:
        if not self._asked:
            return
        head = effect.parts[0]
        assert isinstance(head, bytes | bytearray | memoryview)
        correlation_id = int.from_bytes(head[LENGTH_BYTES : 2 * LENGTH_BYTES], "big", signed=True)
        asked = self._asked.pop((effect.connection, correlation_id), None)
        if asked is None:
            return
        header, request = asked
        frame = b"".join(part for part in effect.parts if isinstance(part, bytes | bytearray))
        body = memoryview(frame)[LENGTH_BYTES:]
        try:
            _, response = decode_response(header.api_key, header.api_version, body)
        except DecodeError:
            return  # the client will say so
        self._read_on()
        for finding in self._ledger.check(request, response):
            self._report(finding)

    def _read_on(self) -> None:
        """What has become durable since the last look: nothing, if nothing was synced."""
        if self._host.disk.syncs == self._syncs_seen:
            return
        self._syncs_seen = self._host.disk.syncs
        for _, _, image in offsets_files(self._host.disk, durable=True):
            position = self._read_up_to.get(image, 0)
            if position == len(image.durable):
                continue
            for header, records in _batches(image.durable[position:]):
                position += header.size
                for record in records:
                    if record.key is not None:
                        value = _bytes_of(record.value)
                        self._ledger.add(bytes(record.key), value, record.headers)
            self._read_up_to[image] = position

    # --- state -----------------------------------------------------------------------------------

    def _look_now_and_then(self, life: Life) -> None:
        if self._host.steps % _STEPS_PER_LOOK == 0:
            self.look(life)

    def look(self, life: Life) -> None:
        """Compare every coordinator with its log."""
        logs: dict[int, list[FileImage]] = {}
        for _, partition, image in offsets_files(self._host.disk):
            logs.setdefault(partition, []).append(image)
        for one in life.node.state.coordinators.describe():
            if one["state"] != "READY":
                continue
            partition = one["partition"]
            log = logs.get(partition, [])
            replay = self._replays.get(partition)
            if replay is None or not replay.is_beginning_of(log):
                replay = self._replays[partition] = _Replay(life)
            replayed = replay.read_on(log)
            for finding in check_state(partition, one["recorded"], replayed):
                self._report(finding)


class _Replay:
    """What another coordinator makes of a log: it reads on where the log has only grown since."""

    def __init__(self, life: Life) -> None:
        state = life.node.state
        topics = ImageTopics(state)
        settings = group_settings(state.config.settings)
        self._coordinator = Coordinator(settings, Random(0), topics)
        self._files: list[tuple[FileImage, int]] = []
        self._position = 0

    def is_beginning_of(self, log: list[FileImage]) -> bool:
        """Nothing of what was read has changed, or has another file in its place."""
        beginning = [(image, image.rewrites) for image in log[: len(self._files)]]
        return beginning == self._files

    def read_on(self, log: list[FileImage]) -> dict[str, Any]:
        """What is recorded, now that the log is this: of all but the last file all was read."""
        for image in log[max(0, len(self._files) - 1) :]:
            if not self._files or self._files[-1][0] is not image:
                self._files.append((image, image.rewrites))
                self._position = 0
            for header, records in _batches(image.cached[self._position :]):
                self._position += header.size
                for record in records:
                    if record.key is not None:
                        key, value = bytes(record.key), _bytes_of(record.value)
                        self._coordinator.replay(key, value, record.headers)
        return self._coordinator.recorded()


def offsets_files(disk: SimDisk, *, durable: bool = False) -> Iterator[tuple[str, int, FileImage]]:
    """The log files of the offsets topic, in order: path, partition, contents. A compacted segment
    that is about to take the place of others (`log.swap`) counts, and they do not: some of them may
    be deleted already, and a start would finish it."""
    for topic in disk.list(TOPICS):
        if topic.rpartition(".")[0] == OFFSETS_TOPIC:
            below = f"{TOPICS}/{topic}"
            files = disk.files(durable=durable, below=below, ending=f".{LOG}")
            swaps = disk.files(durable=durable, below=below, ending=f".{SWAP}")
            for path, image in _swapped(files, swaps).items():
                yield path, int(path.split("/")[2]), image


def _swapped(files: dict[str, FileImage], swaps: dict[str, FileImage]) -> dict[str, FileImage]:
    """The segments with the swaps finished, in order."""
    for swap, image in swaps.items():
        directory, _, name = swap.rpartition("/")
        ((base, end),) = swaps_of([name])
        first, after = (offset_path(directory, offset, LOG) for offset in (base, end))
        files = {path: old for path, old in files.items() if not first <= path < after}
        files[first] = image
    return dict(sorted(files.items()))


def _batches(data: bytearray) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """The sound batches at the begin of the data."""
    try:
        for header, batch in iter_batches(memoryview(bytes(data))):
            if not has_valid_crc(batch, header):
                return
            yield header, list(decode_records(batch, _MAX_BATCH_BYTES))
    except DecodeError:
        return


def _bytes_of(value: Any) -> bytes | None:
    return None if value is None else bytes(value)

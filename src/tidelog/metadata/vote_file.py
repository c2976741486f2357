"""Where a replica of the metadata log keeps its epoch and its vote: the file `quorum-state`.

Kafka's name and fields, as JSON that a person can read. A new state is written beside the old one,
synced, and renamed over it, and the directory is synced too: after a crash there is the old state
or the new one, whole. Losing it could mean voting twice, so a file that can't be read is no start.
"""

from __future__ import annotations

import json
from contextlib import suppress
from uuid import UUID

from tidelog.log.disk import Disk, DiskFull
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.quorum.ports import ElectionState
from tidelog.quorum.voters import ReplicaKey

FILE = "quorum-state"
_NOBODY = -1
_VERSION = 1
_MAX_BYTES = 4_096


class VoteDamaged(Exception):
    """The file is there and can't be understood: the node must not vote by guessing."""


class VoteFile:
    """A `VoteStore` in a directory of a disk."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{FILE}"

    def load(self) -> ElectionState:
        if not self._disk.exists(self._path):
            return ElectionState()
        file = self._disk.open(self._path)
        data = file.read(0, _MAX_BYTES)
        file.close()
        try:
            return _decoded(data)
        except (ValueError, KeyError, TypeError) as error:
            raise VoteDamaged(f"{self._path} can't be understood: {error}") from None

    def renew(self) -> None:
        """After a crash the file may be in the cache alone: its last sync has failed, and the next
        one would not tell. So it is written again before anybody acts on it. Without room for that
        it is as it was."""
        state = self.load()
        if state != ElectionState():
            with suppress(DiskFull):
                self.save(state)

    def save(self, state: ElectionState) -> None:
        """Durable when it returns; `DiskError` if that can't be known."""
        new = f"{self._path}.new"
        self._disk.delete(new)
        file = self._disk.open(new, create=True)
        file.write(0, [_encoded(state)])
        file.sync()
        file.close()
        self._disk.rename(new, self._path)
        self._disk.directory(self._directory).sync()


def _encoded(state: ElectionState) -> bytes:
    voted = state.voted
    fields = {
        "leaderId": _NOBODY if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": _NOBODY if voted is None else voted.node_id,
        "votedDirectoryId": "" if voted is None else str(voted.directory_id),
        "data_version": _VERSION,
    }
    return (json.dumps(fields) + "\n").encode()


def _decoded(data: bytes) -> ElectionState:
    fields = json.loads(data)
    if fields["data_version"] != _VERSION:
        raise ValueError(f"version {fields['data_version']} is from another release")
    voted_id, leader_id = int(fields["votedId"]), int(fields["leaderId"])
    voted = None
    if voted_id != _NOBODY:
        voted = ReplicaKey(NodeId(voted_id), UUID(fields["votedDirectoryId"]))
    leader = None if leader_id == _NOBODY else NodeId(leader_id)
    return ElectionState(LeaderEpoch(int(fields["leaderEpoch"])), voted, leader)

"""Where a voter's promise is kept: the file `quorum-state`, written whole and made durable before
any answer rests on it."""

from __future__ import annotations

import json
from uuid import UUID

from tidelog.log.disk import Disk
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.quorum.ports import ElectionState
from tidelog.quorum.voters import ReplicaKey

QUORUM_STATE = "quorum-state"
_TEMPORARY = "quorum-state.tmp"
_ROOT = ""


class VoteFileDamaged(Exception):
    """A promise that can't be read may be broken: the node must not vote."""


class VoteFile:
    """A `quorum.ports.VoteStore` on the node's disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def load(self) -> ElectionState:
        if not self._disk.exists(QUORUM_STATE):
            return ElectionState()
        file = self._disk.open(QUORUM_STATE)
        data = file.read(0, file.size())
        file.close()
        try:
            raw = json.loads(data)
            voted = raw["voted"]
            return ElectionState(
                epoch=LeaderEpoch(int(raw["epoch"])),
                voted=None if voted is None else ReplicaKey(NodeId(voted[0]), UUID(voted[1])),
                leader_id=None if raw["leader"] is None else NodeId(raw["leader"]),
            )
        except (ValueError, LookupError, TypeError) as error:
            raise VoteFileDamaged(f"{QUORUM_STATE} can't be understood: {error}") from None

    def save(self, state: ElectionState) -> None:
        voted = state.voted
        content = {
            "epoch": state.epoch,
            "voted": None if voted is None else [voted.node_id, str(voted.directory_id)],
            "leader": state.leader_id,
        }
        file = self._disk.open(_TEMPORARY, create=True)
        file.truncate(0)
        file.write(0, [json.dumps(content).encode() + b"\n"])
        file.sync()
        file.close()
        self._disk.rename(_TEMPORARY, QUORUM_STATE)
        self._disk.directory(_ROOT).sync()

"""The metadata log of a controller: what it can't write, another is to decide."""

from __future__ import annotations

from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tidelog.broker.effects import CallPeer
from tidelog.broker.peers import Peers
from tidelog.broker.quorum_journal import QuorumJournal
from tidelog.log.disk import DiskFull
from tidelog.log.log import Log
from tidelog.metadata.image import Image
from tidelog.metadata.journal import NotController
from tidelog.metadata.quorum_log import MetadataLog
from tidelog.metadata.records import ClusterRecord
from tidelog.metadata.vote_file import VoteFile
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint, NodeId
from tidelog.model.settings import topic_settings
from tidelog.quorum.events import ResponseReceived, SendRequest, Ticked
from tidelog.quorum.messages import VoteRequest, VoteResponse
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.testing.disk import FillableDisk, Room
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from tidelog.wire.requests import decode_header
from tidelog.wire.schema import schema_of

OTHER = Endpoint("127.0.0.1", 9093)
DECISION = [ClusterRecord(cluster_id="a-cluster")]


class Controller:
    """Node 1 of two voters, elected."""

    def __init__(self, path: Path) -> None:
        self.room = Room()
        disk = FillableDisk(path, self.room)
        disk.make_directory("metadata")
        log = MetadataLog(disk, Log.open(disk, "metadata", topic_settings({}), clean=False))
        self.quorum = Quorum(
            ReplicaKey(NodeId(1), UUID(int=1)),
            VoterSet.of_ids([1, 2]),
            log=log,
            store=VoteFile(disk, "metadata"),
            random=Random(1),
            now_ms=0.0,
        )
        self.now_ms = 0.0
        self._be_elected()
        self.peers = Peers(NodeId(1))
        self.journal = QuorumJournal(
            self.quorum, log, self.peers, known={}, records_per_snapshot=1_000
        )
        self.journal.connect(
            endpoint_of=lambda node_id: OTHER,
            answer=lambda number, response: None,
            want_flush=lambda: None,
            newest_image=Image,
        )

    def _be_elected(self) -> None:
        while not self.quorum.is_leading:
            self.now_ms = self.quorum.next_deadline() or self.now_ms
            effects = self.quorum.step(self.now_ms, Ticked())
            while effects:
                effect = effects.pop()
                if isinstance(effect, SendRequest) and isinstance(effect.request, VoteRequest):
                    granted = VoteResponse(ErrorCode.NONE, None, effect.request.epoch, True)
                    effects += self.quorum.step(
                        self.now_ms, ResponseReceived(effect.number, granted)
                    )

    @property
    def now(self) -> Now:
        return Now(self.now_ms, int(self.now_ms))

    def asked(self) -> list[int]:
        """The APIs of what was sent to the other voter."""
        calls = [each for each in self.peers.take_effects() if isinstance(each, CallPeer)]
        frames = [memoryview(bytearray(call.frame))[4:] for call in calls]
        return [decode_header(frame)[0].api_key for frame in frames]


def test_a_controller_whose_disk_is_full_hands_over(tmp_path: Path) -> None:
    controller = Controller(tmp_path)
    controller.room.is_full = True
    with pytest.raises(DiskFull):
        controller.journal.append(DECISION, controller.now)
    assert not controller.quorum.is_leading
    assert schema_of(EndQuorumEpochRequest).api_key in controller.asked()
    controller.room.is_full = False
    with pytest.raises(NotController):
        controller.journal.append(DECISION, controller.now)


def test_one_that_can_write_stays(tmp_path: Path) -> None:
    controller = Controller(tmp_path)
    end = controller.journal.last_offset
    assert controller.journal.append(DECISION, controller.now) == end + 1
    assert controller.quorum.is_leading

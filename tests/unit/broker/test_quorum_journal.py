"""The metadata log of a controller: what it can't write, another is to decide."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
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
from tidelog.model.ids import Endpoint, LeaderEpoch, NodeId, Offset
from tidelog.model.settings import topic_settings
from tidelog.quorum.events import ResponseReceived, SendRequest, Ticked
from tidelog.quorum.messages import VoteRequest, VoteResponse
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.testing.disk import FillableDisk, Room
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from tidelog.wire.messages.vote import VoteResponse as WireVoteResponse
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
        self._file = Log.open(disk, "metadata", topic_settings({}), clean=False)
        self._disk = disk
        self.votes = VoteFile(disk, "metadata")
        self.quorum, log = self._opened(0.0)
        self.now_ms = 0.0
        self.answers: list[Any] = []
        self._be_elected()
        self.peers = Peers(NodeId(1))
        self.journal = QuorumJournal(
            self.quorum,
            log,
            self.peers,
            known={},
            records_per_snapshot=1_000,
            cluster_id=None,
            reopen=lambda now_ms, _: self._reopened(now_ms),
        )
        self.journal.connect(
            endpoint_of=lambda node_id: OTHER,
            answer=lambda number, response: self.answers.append(response),
            want_flush=lambda: None,
            newest_image=Image,
        )

    def _opened(self, now_ms: float) -> tuple[Quorum, MetadataLog]:
        log = MetadataLog(self._disk, self._file)
        quorum = Quorum(
            ReplicaKey(NodeId(1), UUID(int=1)),
            VoterSet.of_ids([1, 2]),
            log=log,
            store=self.votes,
            random=Random(1),
            now_ms=now_ms,
        )
        return quorum, log

    def _reopened(self, now_ms: float) -> tuple[Quorum, MetadataLog]:
        self.votes.save(self.votes.load())
        return self._opened(now_ms)

    def live(self, milliseconds: float) -> None:
        end_ms = self.now_ms + milliseconds
        while (self.journal.next_deadline() or end_ms) < end_ms:
            self.now_ms = max(self.now_ms, self.journal.next_deadline() or 0.0)
            self.journal.tick(self.now)
        self.now_ms = end_ms

    def ask_for_a_vote(self, epoch: int) -> list[Any]:
        """The other voter stands; what it is answered at once."""
        self.answers.clear()
        request = VoteRequest(
            voter=ReplicaKey(NodeId(1), UUID(int=1)),
            replica=ReplicaKey(NodeId(2), UUID(int=2)),
            epoch=LeaderEpoch(epoch),
            last_epoch=LeaderEpoch(epoch - 1),
            last_offset=Offset(1_000),
            pre_vote=False,
        )
        self.journal.receive(self.now, 1, request)
        return list(self.answers)

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


def granted(answers: list[Any]) -> bool:
    assert all(isinstance(answer, WireVoteResponse) for answer in answers)
    return any(answer.topics[0].partitions[0].vote_granted for answer in answers)


def test_a_voter_without_room_for_its_vote_gives_none_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    controller = Controller(tmp_path)
    before = controller.votes.load()
    controller.room.is_full = True
    for _ in range(3):
        assert controller.ask_for_a_vote(10) == []
        controller.live(5_000)
    journal = controller.journal
    assert journal.failure is None
    assert not journal.is_active
    assert len(journal.reports) == 1
    assert "does not vote, cannot become controller" in journal.reports[0]
    assert controller.votes.load() == before, "nothing was promised"
    with pytest.raises(NotController):
        journal.append(DECISION, controller.now)
    controller.room.is_full = False
    controller.live(10_000)
    assert "there is room on the disk again" in journal.reports[1]
    assert granted(controller.ask_for_a_vote(10))
    assert controller.votes.load().voted == ReplicaKey(NodeId(2), UUID(int=2))


def test_what_was_committed_stays_so_while_there_is_no_room(tmp_path: Path) -> None:
    controller = Controller(tmp_path)
    committed = controller.journal.committed_offset
    controller.room.is_full = True
    controller.ask_for_a_vote(10)
    assert controller.journal.committed_offset <= committed
    before = controller.journal.committed_offset
    controller.room.is_full = False
    controller.live(3_000)
    assert controller.journal.committed_offset >= before
    controller.journal.validate()


def test_one_that_finds_too_little_room_again_and_again_waits_longer_each_time(
    tmp_path: Path,
) -> None:
    """As for a snapshot that is larger than the room that there is: each try sends it again."""
    controller = Controller(tmp_path)
    pauses_ms = []
    for epoch in range(10, 13):
        controller.room.is_full = True
        controller.ask_for_a_vote(epoch)
        controller.room.is_full = False
        due_ms = controller.journal.next_deadline()
        assert due_ms is not None
        pauses_ms.append(due_ms - controller.now_ms)
        controller.live(pauses_ms[-1] + 1)
        assert "there is room on the disk again" in controller.journal.reports[-1]
    assert pauses_ms == [1_000, 2_000, 4_000]
    controller.live(120_000)
    controller.room.is_full = True
    controller.ask_for_a_vote(1_000)
    assert controller.journal.next_deadline() == controller.now_ms + 1_000

"""One machine of a quorum, driven by hand: events in, effects by kind out."""

from __future__ import annotations

from random import Random
from typing import TypeVar
from uuid import UUID

from tests.support.quorum_disk import MemoryLog, MemoryVoteStore

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum import messages as m
from tidelog.quorum.events import (
    Effect,
    Event,
    LogFlushed,
    RequestReceived,
    ResponseReceived,
    SendRequest,
    SendResponse,
    Ticked,
    Ticket,
)
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.states import State
from tidelog.quorum.voters import ReplicaKey, VoterSet

Kind = TypeVar("Kind")


def key(number: int) -> ReplicaKey:
    return ReplicaKey(NodeId(number), UUID(int=number))


class Driver:
    """Replica 1 of `voters`; `effects` are those of the last step."""

    def __init__(self, *voters: int, number: int = 1) -> None:
        self.voters = VoterSet.of_ids(voters)
        self.key = key(number)
        self.log = MemoryLog()
        self.store = MemoryVoteStore()
        self.now = 0.0
        self.effects: list[Effect] = []
        self.last_ticket = 0
        self.start()

    def start(self) -> None:
        self.quorum = Quorum(
            self.key,
            self.voters,
            log=self.log,
            store=self.store,
            random=Random(7),
            now_ms=self.now,
            cluster_id="ours",
            bootstrap=self.voters.node_ids,
        )

    def restart(self) -> None:
        self.log.crash(Random(1))
        self.start()

    def state(self) -> State:
        return self.quorum.state

    def voter_ids(self) -> list[int]:
        return list(self.quorum.voters.node_ids)

    def step(self, event: Event) -> list[Effect]:
        self.effects = self.quorum.step(self.now, event)
        self.quorum.validate()
        return self.effects

    def tick(self) -> list[Effect]:
        """At the next deadline."""
        self.now = max(self.now, self.quorum.next_deadline() or 0.0)
        return self.step(Ticked())

    def tick_role(self) -> list[Effect]:
        """At the end of the timer of its state."""
        self.now = max(self.now, self.quorum.describe()["timer_ms"])
        return self.step(Ticked())

    def flush(self) -> list[Effect]:
        self.log.flushed(self.log.end_offset)
        return self.step(LogFlushed())

    def ask(self, request: m.Request) -> m.Response | None:
        """A request from outside, and its answer if there is one at once."""
        self.last_ticket += 1
        self.step(RequestReceived(Ticket(self.last_ticket), request))
        return self.answer_to(self.last_ticket)

    def answer_to(self, ticket: int) -> m.Response | None:
        answers = [each for each in self.of(SendResponse) if each.ticket == ticket]
        return answers[0].response if answers else None

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def sent(self, kind: type[Kind]) -> list[tuple[int, int, Kind]]:
        """Number, destination and request of what was sent in the last step."""
        return [
            (each.number, each.destination, each.request)
            for each in self.of(SendRequest)
            if isinstance(each.request, kind)
        ]

    def respond(self, number: int, response: m.PeerResponse) -> list[Effect]:
        return self.step(ResponseReceived(number, response))

    def grant_all(self) -> None:
        """Every vote that was asked for in the last step is given, until it leads."""
        while votes := self.sent(m.VoteRequest):
            number, _, request = votes[0]
            epoch = request.epoch
            self.respond(number, m.VoteResponse(ErrorCode.NONE, None, epoch, True))

    def lead(self) -> None:
        """Elected, and its first record flushed here."""
        self.tick_role()
        self.grant_all()
        self.flush()

    def follow(self, leader: int, epoch: int) -> None:
        self.ask(
            m.BeginQuorumEpochRequest(self.key, NodeId(leader), LeaderEpoch(epoch), (), "ours")
        )

    def vote_for(
        self,
        candidate: int,
        epoch: int,
        *,
        log: tuple[int, int] = (0, -1),
        pre_vote: bool = False,
        voter: ReplicaKey | None = None,
    ) -> m.VoteResponse:
        """`log` is (end offset, last epoch)."""
        response = self.ask(
            m.VoteRequest(
                voter or self.key,
                key(candidate),
                LeaderEpoch(epoch),
                LeaderEpoch(log[1]),
                Offset(log[0]),
                pre_vote,
                "ours",
            )
        )
        assert isinstance(response, m.VoteResponse)
        return response

    def fetch_by(
        self,
        number: int,
        offset: int,
        last_epoch: int,
        *,
        epoch: int | None = None,
        hw: int = 0,
        heard: int = 0,
    ) -> m.FetchResponse | None:
        response = self.ask(
            m.FetchRequest(
                key(number),
                self.quorum.epoch if epoch is None else LeaderEpoch(epoch),
                Offset(offset),
                LeaderEpoch(last_epoch),
                Offset(hw),
                500,
                1 << 20,
                "ours",
                heard=heard,
            )
        )
        assert response is None or isinstance(response, m.FetchResponse)
        return response

"""The stage for transcripts of the quorum: replicas by number, a network without speed, one clock.

A command is one line; the reaction is everything that happened, message by message, until nothing
is under way any more (parked fetches wait at the leader). Time stands still except for `timeout`,
which lets one replica's timer run out. A log is written as `offset@epoch`, the end of it as the
first offset that is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from uuid import UUID

from tests.support.quorum_disk import MemoryLog, MemoryVoteStore

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.quorum import messages as m
from tidelog.quorum.batches import Batch, LeaderChange, VotersChange
from tidelog.quorum.events import (
    ApplyCommitted,
    Effect,
    Event,
    FlushLog,
    LeaveOffice,
    LoadSnapshot,
    LogFlushed,
    RequestFailed,
    RequestReceived,
    ResignationWanted,
    ResponseReceived,
    SendRequest,
    SendResponse,
    TakeOffice,
    Ticked,
    Ticket,
)
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.settings import QuorumSettings
from tidelog.quorum.voters import ReplicaKey, VoterSet

SETTINGS = QuorumSettings(snapshot_piece_bytes=40)


class Replica:
    """One machine, its disk, and what the stage has told of it so far."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.key = ReplicaKey(NodeId(number), UUID(int=number))
        self.log = MemoryLog()
        self.store = MemoryVoteStore()
        self.quorum: Quorum | None = None
        self.told_state = ""
        self.told_end = 0
        self.has_slow_disk = False


class QuorumStage:
    """Plays commands. `play` gives the reaction as lines."""

    def __init__(self) -> None:
        self.replicas: dict[int, Replica] = {}
        self.voters = VoterSet()
        self.lines: list[str] = []
        self.now = 0.0
        self.apart: set[int] = set()
        self.waiting: deque[Callable[[], None]] = deque()
        self.tickets: dict[Ticket, tuple[Replica, int] | str] = {}
        self.last_ticket = 0

    def play(self, command: str) -> list[str]:
        self.lines = []
        verb, *words = command.split()
        act: Callable[[list[str]], None] = getattr(self, f"do_{verb}")
        act(words)
        while self.waiting:
            self.waiting.popleft()()
        return self.lines or ["(nothing)"]

    # Commands.

    def do_voters(self, words: list[str]) -> None:
        """`voters 1 2 3`: the configuration, and these replicas start."""
        self.voters = VoterSet.of_ids(int(word) for word in words)
        self.do_start(words)

    def do_start(self, words: list[str]) -> None:
        for number in map(int, words):
            replica = self.replicas.setdefault(number, Replica(number))
            replica.quorum = Quorum(
                replica.key,
                self.voters,
                log=replica.log,
                store=replica.store,
                random=Random(number),
                now_ms=self.now,
                settings=SETTINGS,
                bootstrap=self.voters.node_ids,
            )
            replica.told_state = ""
            replica.told_end = replica.log.end_offset
            self.notice(replica)
            deadline = replica.quorum.next_deadline()
            if deadline is not None and deadline <= self.now:
                self.step(replica, Ticked())

    def do_timeout(self, words: list[str]) -> None:
        """Time passes for one replica, until the timer of its state runs out."""
        replica = self.replicas[int(words[0])]
        assert replica.quorum is not None
        deadline = replica.quorum.describe()["timer_ms"]
        if deadline is None:
            deadline = replica.quorum.next_deadline()
        assert deadline is not None
        self.now = max(self.now, deadline)
        self.step(replica, Ticked())

    def do_propose(self, words: list[str]) -> None:
        replica = self.replicas[int(words[0])]
        assert replica.quorum is not None
        proposal, effects = replica.quorum.propose(self.now, [w.encode() for w in words[1:]])
        if proposal.error is not ErrorCode.NONE:
            self.lines.append(f"{words[0]}: {proposal.error.name}")
        self.settle(replica, effects)

    def do_cut(self, words: list[str]) -> None:
        """The network loses whatever goes to or from these replicas."""
        self.apart = set(map(int, words))

    def do_mend(self, words: list[str]) -> None:
        self.apart.clear()

    def do_crash(self, words: list[str]) -> None:
        for number in map(int, words):
            replica = self.replicas[number]
            replica.quorum = None
            lost = replica.log.end_offset - replica.log.durable_end_offset
            replica.log.crash(Random(0))
            self.lines.append(f"{number}: down" + (f", {lost} records lost" if lost else ""))

    def do_slow(self, words: list[str]) -> None:
        """`slow 1`: its flushes do not end any more; `slow 1 over`: they do again."""
        replica = self.replicas[int(words[0])]
        replica.has_slow_disk = "over" not in words
        if not replica.has_slow_disk:
            self.flush(replica)

    def do_snapshot(self, words: list[str]) -> None:
        """Of all that is committed; its state is what the last word says."""
        replica = self.replicas[int(words[0])]
        assert replica.quorum is not None
        made = replica.quorum.snapshot(replica.quorum.high_watermark, words[1].encode())
        self.lines.append(f"{words[0]}: snapshot {made.end_offset}@{made.epoch}")

    def do_resign(self, words: list[str]) -> None:
        self.step(self.replicas[int(words[0])], ResignationWanted())

    def do_add(self, words: list[str]) -> None:
        """`add 4 to 1`: an administrator asks replica 1."""
        voter = self.replicas[int(words[0])].key
        self.ask(int(words[2]), m.AddRaftVoterRequest(voter, (), 5_000), "AddRaftVoter")

    def do_remove(self, words: list[str]) -> None:
        """`remove 1 at 2`"""
        voter = self.replicas[int(words[0])].key
        self.ask(int(words[2]), m.RemoveRaftVoterRequest(voter), "RemoveRaftVoter")

    def do_describe(self, words: list[str]) -> None:
        self.ask(int(words[0]), m.DescribeQuorumRequest(), "DescribeQuorum")

    def ask(self, number: int, request: m.Request, api: str) -> None:
        self.last_ticket += 1
        self.tickets[Ticket(self.last_ticket)] = api
        self.step(self.replicas[number], RequestReceived(Ticket(self.last_ticket), request))

    # What happens.

    def step(self, replica: Replica, event: Event) -> None:
        if replica.quorum is not None:
            self.settle(replica, replica.quorum.step(self.now, event))

    def settle(self, replica: Replica, effects: list[Effect]) -> None:
        assert replica.quorum is not None
        replica.quorum.validate()
        self.notice(replica)
        for effect in effects:
            self.carry_out(replica, effect)

    def carry_out(self, replica: Replica, effect: Effect) -> None:
        number = replica.number
        if isinstance(effect, SendRequest):
            self.send(replica, effect)
        elif isinstance(effect, SendResponse):
            self.answer(replica, effect)
        elif isinstance(effect, FlushLog):
            self.flush(replica)
        elif isinstance(effect, ApplyCommitted):
            self.lines.append(f"{number}: committed up to {effect.high_watermark}")
        elif isinstance(effect, LoadSnapshot):
            name = f"{effect.snapshot_id.end_offset}@{effect.snapshot_id.epoch}"
            self.lines.append(f"{number}: loads snapshot {name}: {effect.state.decode()}")
        elif isinstance(effect, TakeOffice):
            self.lines.append(f"{number}: takes office")
        elif isinstance(effect, LeaveOffice):
            self.lines.append(f"{number}: leaves office")

    def flush(self, replica: Replica) -> None:
        def done() -> None:
            if replica.quorum is not None and not replica.has_slow_disk:
                replica.log.flushed(replica.log.end_offset)
                self.step(replica, LogFlushed())

        self.waiting.append(done)

    def send(self, replica: Replica, effect: SendRequest) -> None:
        target = self.replicas[effect.destination]
        self.last_ticket += 1
        ticket = Ticket(self.last_ticket)
        self.tickets[ticket] = (replica, effect.number)
        line = f"{replica.number} > {target.number} {request_in_words(effect.request)}"

        def arrive() -> None:
            if self.apart & {replica.number, target.number}:
                self.lines.append(f"{line}: lost")
            elif target.quorum is None:
                self.lines.append(f"{line}: nobody there")
                self.step(replica, RequestFailed(effect.number))
            else:
                self.lines.append(line)
                self.step(target, RequestReceived(ticket, effect.request))

        self.waiting.append(arrive)

    def answer(self, replica: Replica, effect: SendResponse) -> None:
        asker = self.tickets.pop(effect.ticket)
        text = response_in_words(effect.response)
        if isinstance(asker, str):
            self.lines.append(f"{replica.number}: {asker} {text}")
            return
        target, number = asker
        line = f"{replica.number} > {target.number} {text}"
        response = effect.response
        assert isinstance(response, m.PeerResponse)

        def arrive() -> None:
            if self.apart & {replica.number, target.number}:
                self.lines.append(f"{line}: lost")
                return
            self.lines.append(line)
            self.step(target, ResponseReceived(number, response))

        self.waiting.append(arrive)

    def notice(self, replica: Replica) -> None:
        """How the replica and its log are now, where that has changed."""
        quorum, log = replica.quorum, replica.log
        assert quorum is not None
        state = f"{quorum.state.value} in epoch {quorum.epoch}"
        if quorum.leader_id is not None and quorum.leader_id != replica.number:
            state += f" of {quorum.leader_id}"
        if state != replica.told_state:
            replica.told_state = state
            self.lines.append(f"{replica.number}: {state}")
        if log.end_offset < replica.told_end:
            self.lines.append(f"{replica.number}: log cut to {log.end_offset}")
        elif log.end_offset > replica.told_end:
            told = max(replica.told_end, log.start_offset)
            new = [batch for batch in log.batches if batch.base_offset >= told]
            self.lines += [f"{replica.number}: log {batch_in_words(batch)}" for batch in new]
        replica.told_end = log.end_offset


def batch_in_words(batch: Batch) -> str:
    at = f"{batch.base_offset}@{batch.epoch}"
    if isinstance(batch.control, LeaderChange):
        return f"{at} leader {batch.control.leader.node_id}"
    if isinstance(batch.control, VotersChange):
        return f"{at} voters {' '.join(map(str, batch.control.voters.node_ids))}"
    return f"{at} {' '.join(record.decode() for record in batch.records)}"


def request_in_words(request: m.PeerRequest) -> str:
    if isinstance(request, m.VoteRequest):
        kind = "pre-vote" if request.pre_vote else "Vote"
        return f"{kind} epoch {request.epoch} log {request.last_offset}@{request.last_epoch}"
    if isinstance(request, m.BeginQuorumEpochRequest):
        return f"BeginQuorumEpoch {request.epoch}"
    if isinstance(request, m.EndQuorumEpochRequest):
        successors = " ".join(str(key.node_id) for key in request.successors)
        return f"EndQuorumEpoch {request.epoch} successors {successors}"
    if isinstance(request, m.FetchSnapshotRequest):
        name = f"{request.snapshot_id.end_offset}@{request.snapshot_id.epoch}"
        return f"FetchSnapshot {name} from byte {request.position}"
    return f"Fetch epoch {request.epoch} from {request.fetch_offset}@{request.last_fetched_epoch}"


def response_in_words(response: m.Response) -> str:
    if response.error is not ErrorCode.NONE:
        return response.error.name
    if isinstance(response, m.VoteResponse):
        return "yes" if response.is_granted else "no"
    if isinstance(response, m.FetchSnapshotResponse):
        return f"{len(response.data)} of {response.size} bytes"
    if isinstance(response, m.DescribeQuorumResponse):
        voters = " ".join(f"{v.replica.node_id}:{v.log_end_offset}" for v in response.voters)
        others = " ".join(f"{o.replica.node_id}:{o.log_end_offset}" for o in response.observers)
        return f"voters {voters} observers {others or 'none'} committed {response.high_watermark}"
    if not isinstance(response, m.FetchResponse):
        return "ok"
    if response.diverging is not None:
        return (
            f"diverging: epoch {response.diverging.epoch} ends at {response.diverging.end_offset}"
        )
    if response.snapshot_id is not None:
        return f"needs snapshot {response.snapshot_id.end_offset}@{response.snapshot_id.epoch}"
    count = sum(batch.next_offset - batch.base_offset for batch in response.batches)
    return f"{count} records, committed {response.high_watermark}"

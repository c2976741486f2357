"""The stage for transcripts of the controller: nodes by number, one topic `t`, time by hand.

A command is one line; the reaction is everything that happened: records (`log: ...`), answers
(`1 < ...`), and each partition that has changed. Nodes that run send heartbeats while time passes.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.support.controller_driver import ControllerDriver

from tidelog.controller.elections import Election
from tidelog.controller.log_ends import LogEnd, LogEnds
from tidelog.controller.reassignments import plan_drain
from tidelog.metadata.image import PartitionState
from tidelog.metadata.records import (
    LEADER_UNCHANGED,
    MetadataRecord,
    NodeChangeRecord,
    NodeRecord,
    PartitionChangeRecord,
    UnregisterNodeRecord,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionKey,
)


class ElectionStage:
    """Plays commands. `play` gives the reaction as lines."""

    def __init__(self) -> None:
        self.driver = ControllerDriver()
        self.running: list[int] = []
        self.vouched: dict[int, int] = {}
        self.lines: list[str] = []
        self.written = 0
        self.told: dict[str, str] = {}

    def play(self, command: str) -> list[str]:
        self.lines = []
        verb, *words = command.split()
        act: Callable[..., None] = getattr(self, f"do_{verb}")
        act(*words)
        self.notice()
        return self.lines or ["(nothing)"]

    # --- nodes --------------------------------------------------------------------------------

    def do_start(self, *nodes: str) -> None:
        """Each registers, vouching for its logs if it stopped cleanly, and sends a heartbeat."""
        for number in map(int, nodes):
            previous = self.vouched.pop(number, NO_BROKER_EPOCH)
            outcome = self.driver.register(number, previous_epoch=previous)
            self.say(number, "BrokerRegistration", outcome.error, f"epoch {outcome.epoch}")
            if outcome.error is ErrorCode.NONE:
                self.running.append(number)
                self.do_beat(str(number))

    def do_beat(self, number: str, *wants: str) -> None:
        outcome = self.driver.beat(
            int(number),
            wants_shutdown="wants-to-stop" in wants,
            epoch=next((int(w.partition("=")[2]) for w in wants if w.startswith("epoch=")), None),
        )
        words = "fenced" if outcome.is_fenced else "serving"
        words += ", may stop" if outcome.should_shut_down else ""
        self.say(int(number), "BrokerHeartbeat", outcome.error, words)
        if outcome.should_shut_down:
            self.running.remove(int(number))
            self.vouched[int(number)] = self.driver.epochs[NodeId(int(number))]

    def do_kill(self, *nodes: str) -> None:
        """Without a word. What it had not flushed is gone."""
        for number in map(int, nodes):
            self.running.remove(number)

    def do_advance(self, seconds: str) -> None:
        ms = float(seconds.removesuffix("s")) * 1000
        self.driver.advance(ms, alive=tuple(self.running))

    def do_unregister(self, number: str) -> None:
        decision = self.driver.controller.unregister(NodeId(int(number)))
        self.driver.commit(decision)
        self.lines.append(f"UnregisterBroker {decision.response.name}")

    def do_failover(self) -> None:
        """Another controller, from a snapshot."""
        self.driver.fail_over()

    # --- partitions ---------------------------------------------------------------------------

    def do_create(self, *words: str) -> None:
        """`create 1,2,3 2,3,1 min.insync.replicas=2`"""
        placed = [numbers(word) for word in words if "=" not in word]
        pairs = (word.split("=") for word in words if "=" in word)
        configs = {name.replace(".", "_"): value for name, value in pairs}
        self.driver.create("t", tuple(placed), **configs)

    def do_isr(self, members: str, *options: str) -> None:
        """The leader of t-0 asks; `3@2` names the epoch of a member."""
        epochs = {
            int(word.partition("@")[0]): int(word.partition("@")[2])
            for word in members.split(",")
            if "@" in word
        }
        named = [int(word.partition("@")[0]) for word in members.split(",")]
        leader = self.driver.state().leader
        outcome = self.driver.alter_isr(*named, epochs=epochs)
        self.say(leader, "AlterPartition", outcome.error, "granted")

    def do_reassign(self, target: str) -> None:
        error = self.driver.reassign(*numbers(target))
        self.lines.append(f"AlterPartitionReassignments {error.name}")

    def do_cancel(self) -> None:
        self.lines.append(f"AlterPartitionReassignments {self.driver.cancel().name}")

    def do_drain(self, number: str) -> None:
        moves, stuck = plan_drain(self.driver.image, NodeId(int(number)))
        self.lines += [f"plan: {move.name} to {listed(move.replicas or ())}" for move in moves]
        self.lines += [f"plan: {name} has nowhere to go" for name in stuck]
        self.driver.commit(self.driver.controller.reassign(moves))

    def do_elect(self, kind: str, *logs: str) -> None:
        """`elect unclean 1=3@70 2=empty`: node 1 says that its last record is of epoch 3, and that
        its log ends at 70."""
        log_ends = self._log_ends(logs)
        decision = self.driver.controller.elect_leaders(None, Election[kind.upper()], log_ends)
        self.driver.commit(decision)
        self.lines += [f"ElectLeaders {each.name} {each.error.name}" for each in decision.response]

    def do_hear(self, *logs: str) -> None:
        """The controller has asked about what waits for an unclean election, as topics allow."""
        self.driver.commit(self.driver.controller.elect_waiting(self._log_ends(logs)))

    def _log_ends(self, logs: tuple[str, ...]) -> dict[PartitionKey, LogEnds]:
        """What nodes say of t-0, under their present registrations."""
        told = {}
        for word in logs:
            node, _, text = word.partition("=")
            epoch, _, end = ("-1", "", "0") if text == "empty" else text.partition("@")
            told[NodeId(int(node))] = LogEnd(
                self.driver.epochs[NodeId(int(node))], LeaderEpoch(int(epoch)), Offset(int(end))
            )
        state = self.driver.state()
        return {state.key: LogEnds(state.leader_epoch, told)}

    # --- reactions ----------------------------------------------------------------------------

    def say(self, node: int, api: str, error: ErrorCode, text: str) -> None:
        self.lines.append(f"{node} < {api} {text if error is ErrorCode.NONE else error.name}")

    def notice(self) -> None:
        written = [in_words(record) for record in self.driver.log[self.written :]]
        self.written = len(self.driver.log)
        self.lines[:0] = [f"log: {line}" for line in written if line is not None]
        for state in self.driver.image.partitions():
            told = state_in_words(state)
            if self.told.get(str(state.name)) != told:
                self.told[str(state.name)] = told
                self.lines.append(f"{state.name}: {told}")


def in_words(record: MetadataRecord) -> str | None:
    """One line for what a record says; nothing for those a state line tells better."""
    if isinstance(record, NodeRecord):
        return f"node {record.node_id} registered, broker epoch {record.epoch}, fenced"
    if isinstance(record, NodeChangeRecord):
        if record.is_shutting_down >= 0:
            return f"node {record.node_id} shutting down"
        return f"node {record.node_id} {'fenced' if record.is_fenced else 'unfenced'}"
    if isinstance(record, UnregisterNodeRecord):
        return f"node {record.node_id} forgotten"
    if not isinstance(record, PartitionChangeRecord):
        return None
    words = [] if record.leader == LEADER_UNCHANGED else [f"leader {record.leader}"]
    for name, nodes in (
        ("isr", record.isr),
        ("elr", record.elr),
        ("last known elr", record.last_known_elr),
        ("replicas", record.replicas),
        ("adding", record.adding_replicas),
        ("removing", record.removing_replicas),
    ):
        if nodes is not None:
            words.append(f"{name} {listed(nodes)}")
    return f"t-{record.partition} changes: {', '.join(words)}"


def state_in_words(state: PartitionState) -> str:
    leader = "no leader" if state.leader == NO_LEADER else f"leader {state.leader}"
    words = [f"{leader} in epoch {state.leader_epoch}", f"isr {listed(state.isr)}"]
    if state.elr:
        words.append(f"elr {listed(state.elr)}")
    if state.last_known_elr:
        words.append(f"last known elr {listed(state.last_known_elr)}")
    words.append(f"replicas {listed(state.replicas)}")
    return ", ".join(words)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def listed(nodes: tuple[int, ...] | tuple[NodeId, ...] | list[int]) -> str:
    return ",".join(map(str, nodes)) or "nobody"

"""The stage for stories of replicas: nodes 1, 2 and 3, one partition, one controller.

Nothing happens by itself: a fetch, a flush, a proposal, metadata that is learned are commands. The
reaction is what was sent and decided, and every node and fact that is not as it was before. A log
is told as `value/epoch`; everything is checked after every command (`ReplicationChecks`)."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.mini_cluster import MiniCluster, ToyNode

from tidelog.log.disk import FileSpan
from tidelog.model.ids import NodeId, Offset
from tidelog.wire.batch import iter_batches
from tidelog.wire.records import decode_records


class ReplicationStage:
    """Plays commands. `play` gives the reaction as lines."""

    def __init__(self) -> None:
        self.cluster = MiniCluster(0, min_isr=1)
        self.told: dict[str, str] = {}
        self.facts()

    def play(self, command: str) -> list[str]:
        verb, *words = command.split()
        before = len(self.cluster.trace)
        act: Callable[[list[str]], None] = getattr(self, f"do_{verb}")
        act(words)
        self.cluster._settle()
        self.cluster.checks.check()
        lines = [line.partition(" ")[2] for line in self.cluster.trace[before:]]
        return [*lines, *self.facts()] or ["(nothing)"]

    def node(self, word: str) -> ToyNode:
        return self.cluster.nodes[NodeId(int(word))]

    # --- commands -----------------------------------------------------------------------------

    def do_cluster(self, words: list[str]) -> None:
        """`cluster 2`: with min.insync.replicas 2."""
        self.cluster = MiniCluster(0, min_isr=int(words[0]))
        self.told = {}

    def do_append(self, words: list[str]) -> None:
        """`append 1`: a produce request to node 1."""
        leader = self.node(words[0]).leader
        if leader is None:
            self.cluster.note("NOT_LEADER_OR_FOLLOWER")
        elif not leader.has_enough_replicas:
            self.cluster.note("NOT_ENOUGH_REPLICAS")
        else:
            self.cluster.produce_to(leader)

    def do_flush(self, words: list[str]) -> None:
        for word in words:
            self.cluster._finish_flush(self.node(word))
            self.cluster._finish_flush(self.node(word))

    def do_delete(self, words: list[str]) -> None:
        """`delete 1 3`: node 1, which leads, is asked to delete what lies below 3."""
        leader = self.node(words[0]).leader
        assert leader is not None
        leader.log.advance_start(Offset(int(words[1])))

    def do_tidy(self, words: list[str]) -> None:
        """`tidy 1`: node 1 lets go of the segments in which there is nothing any more."""
        for word in words:
            replica = self.node(word).replica
            assert replica is not None
            now_ms = int(self.cluster.now_ms)
            replica.log.apply_retention(now_ms, limit_offset=replica.high_watermark)

    def do_fetch(self, words: list[str]) -> None:
        """`fetch 2`: node 2's fetch arrives, and its answer."""
        for word in words:
            self.cluster._settle()
            self.deliver(f"{word} fetches")
            self.deliver(f"answers {word}")

    def do_propose(self, words: list[str]) -> None:
        """`propose 1`: node 1's proposal reaches the controller; `answer 1`, the answer node 1."""
        self.deliver(f"{words[0]}'s proposal arrives")

    def do_answer(self, words: list[str]) -> None:
        self.deliver("proposal: ")

    def deliver(self, text: str) -> None:
        found = next((m for m in self.cluster.network if text in m.text), None)
        if found is not None:
            self.cluster.network.remove(found)
            self.cluster._arrive(found)

    def do_learn(self, words: list[str]) -> None:
        """`learn 2 3`: all committed metadata reaches nodes 2 and 3."""
        for word in words:
            self.cluster._learn(self.node(word), len(self.cluster.controller.history))

    def do_crash(self, words: list[str]) -> None:
        """Its connections go with it, and what is on them."""
        node = self.node(words[0])
        self.cluster.crash_node(node, is_power_lost=True)
        self.cluster.network = [
            message
            for message in self.cluster.network
            if message.to != node.node_id and not message.text.startswith(f"{node.node_id} ")
        ]

    def do_restart(self, words: list[str]) -> None:
        self.cluster._restart(self.node(words[0]))

    def do_fence(self, words: list[str]) -> None:
        self.cluster.controller.fence(NodeId(int(words[0])))

    def do_unfence(self, words: list[str]) -> None:
        self.cluster.controller.unfence(NodeId(int(words[0])))

    def do_elect(self, words: list[str]) -> None:
        self.cluster.controller.elect(NodeId(int(words[0])))

    def do_wait(self, words: list[str]) -> None:
        self.cluster.now_ms += int(words[0])

    # --- reactions ----------------------------------------------------------------------------

    def facts(self) -> list[str]:
        """What is not as it was when last told."""
        state = self.cluster.controller.state
        now = {
            "controller": f"leader {state.leader} of epoch {state.leader_epoch}, in sync "
            f"{list(state.isr)}, eligible {list(state.elr)}"
        }
        for node in self.cluster.nodes.values():
            now[f"node {node.node_id}"] = in_words(node)
        news = [f"{name}: {text}" for name, text in now.items() if self.told.get(name) != text]
        self.told = now
        return news


def in_words(node: ToyNode) -> str:
    replica = node.replica
    if replica is None:
        return "down"
    log = replica.log
    role = "leads" if replica.leader else "follows" if replica.follower else "rests"
    parts = [f"{role} in {replica.leader_epoch}", " ".join(records(node)) or "nothing"]
    parts.append(f"flushed {log.flushed_offset}, watermark {replica.high_watermark}")
    if replica.leader is not None and not replica.is_proven:
        parts.append("not proven")
    return ", ".join(parts)


def records(node: ToyNode) -> list[str]:
    assert node.replica is not None
    log, found = node.replica.log, []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        span = log.read(
            offset, max_bytes=1 << 20, limit_offset=log.log_end_offset, at_least_one=True
        )
        assert isinstance(span, FileSpan)
        for header, batch in iter_batches(memoryview(span.read())):
            for record in decode_records(batch, 1 << 20):
                assert record.value is not None
                found.append(f"{record.value.decode()}/{header.leader_epoch}")
            offset = Offset(header.next_offset)
    return found

"""A controller in a test's hand: a log that commits at once, nodes by number, time by hand."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from tidelog.controller.controller import ClusterRules, Controller
from tidelog.controller.decision import Decision
from tidelog.controller.isr_changes import IsrChange, IsrMember, IsrOutcome
from tidelog.controller.reassignments import Reassignment
from tidelog.controller.registry import Registration, RegistrationOutcome
from tidelog.controller.sessions import Heartbeat, HeartbeatOutcome
from tidelog.controller.topics import TopicRules, TopicSpec
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import Image, Listener, PartitionState
from tidelog.metadata.records import MetadataRecord, decode_record, encode_record
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    NodeId,
    Offset,
    PartitionKey,
    TopicPartition,
)
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

SESSION_MS = 3000.0
RULES = TopicRules(
    default_partitions=1, max_partitions=10_000, internal_factors={"__consumer_offsets": 3}
)


class ControllerDriver:
    """Decides, records, replays; and looks at the image after each."""

    def __init__(
        self,
        *,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
        rebalance_interval_ms: float | None = None,
        rules: TopicRules = RULES,
        seed: int = 7,
    ) -> None:
        self.safeguards = safeguards
        self.rules = rules
        self.cluster = ClusterRules(SESSION_MS, rebalance_interval_ms)
        self.random = Random(seed)
        self.now_ms = 0.0
        self.log: list[MetadataRecord] = []
        self.epochs: dict[NodeId, BrokerEpoch] = {}
        self.incarnations = 0
        self.present: frozenset[NodeId] | None = None
        self.controller = self._make(Image())
        self.controller.begin(self.now_ms, self.offset)

    @property
    def image(self) -> Image:
        return self.controller.image

    @property
    def offset(self) -> Offset:
        """Of the newest record."""
        return Offset(len(self.log) - 1)

    def commit(self, decision: Decision[Any]) -> Delta:
        """Records travel as bytes, as they do in the log."""
        before = self.image
        records = [decode_record(encode_record(record)) for record in decision.records]
        assert records == decision.records
        self.log += records
        self.controller.appended(records, self.offset)
        self.image.validate()
        _, delta = before.replay(records)
        check_epochs(delta)
        return delta

    def fail_over(self) -> None:
        """Another controller, from a snapshot of what was recorded."""
        image, _ = Image().replay(self.image.to_records())
        assert image == self.image
        image.validate(whole=True)
        self.controller = self._make(image)
        self.controller.sees(self.present)
        self.controller.begin(self.now_ms, self.offset)

    def see(self, *nodes: int) -> None:
        """Who is there besides being heard of."""
        self.present = frozenset(NodeId(node) for node in nodes)
        self.controller.sees(self.present)

    # --- nodes --------------------------------------------------------------------------------

    def register(
        self,
        node: int,
        *,
        rack: str | None = None,
        previous_epoch: int = NO_BROKER_EPOCH,
        has_crashed: bool = False,
        incarnation: UUID | None = None,
    ) -> RegistrationOutcome:
        node_id = NodeId(node)
        self.incarnations += 1
        asked = Registration(
            node_id,
            listeners=(Listener("PLAINTEXT", f"host{node}", 9092),),
            rack=rack,
            incarnation_id=incarnation or UUID(int=self.incarnations),
            previous_epoch=BrokerEpoch(previous_epoch),
            has_crashed=has_crashed,
        )
        decision = self.controller.register(asked, now_ms=self.now_ms)
        self.commit(decision)
        if decision.response.error is ErrorCode.NONE:
            self.epochs[node_id] = decision.response.epoch
        return decision.response

    def beat(
        self,
        node: int,
        *,
        epoch: int | None = None,
        wants_shutdown: bool = False,
        wants_fence: bool = False,
        seen: int | None = None,
        is_cut_off: bool = False,
        is_certain: bool = True,
        may_lack: tuple[PartitionKey, ...] = (),
    ) -> HeartbeatOutcome:
        node_id = NodeId(node)
        beat = Heartbeat(
            node_id,
            self.epochs[node_id] if epoch is None else epoch,
            self.offset if seen is None else seen,
            wants_fence=wants_fence,
            wants_shutdown=wants_shutdown,
            is_cut_off=is_cut_off,
            may_lack=may_lack,
        )
        decision = self.controller.heartbeat(beat, now_ms=self.now_ms, is_certain=is_certain)
        self.commit(decision)
        return decision.response

    def start(self, *nodes: int, **options: str) -> None:
        """Registered and let in; `rack1="a"` says where node 1 stands."""
        for node in nodes:
            outcome = self.register(node, rack=options.get(f"rack{node}"))
            assert outcome.error is ErrorCode.NONE, outcome
            assert not self.beat(node).is_fenced

    def advance(self, ms: float, *, alive: tuple[int, ...] = ()) -> None:
        """Time passes in small steps, in which `alive` nodes send heartbeats."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + 500)
            for node in alive:
                self.beat(node)
            self.commit(self.controller.tick(self.now_ms))

    # --- topics -------------------------------------------------------------------------------

    def create(
        self,
        name: str = "t",
        replicas: tuple[tuple[int, ...], ...] = ((1, 2, 3),),
        **configs: str,
    ) -> None:
        spec = TopicSpec(
            name,
            assignments=dict(enumerate(replicas)),
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        decision = self.controller.create_topics([spec])
        assert decision.response[0].error is ErrorCode.NONE, decision.response
        self.commit(decision)

    def state(self, name: str = "t", partition: int = 0) -> PartitionState:
        return self.image.topics[name].partitions[partition]

    def alter_isr(
        self,
        *members: int,
        name: str = "t",
        partition: int = 0,
        leader: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        epochs: dict[int, int] | None = None,
    ) -> IsrOutcome:
        """The leader asks; members have the epochs they are registered with, unless `epochs`."""
        state = self.state(name, partition)
        asking = NodeId(state.leader if leader is None else leader)
        known = {int(node_id): node.epoch for node_id, node in self.image.nodes.items()}
        known |= {node: BrokerEpoch(epoch) for node, epoch in (epochs or {}).items()}
        change = IsrChange(
            state.key,
            leader_epoch=state.leader_epoch if leader_epoch is None else leader_epoch,
            partition_epoch=state.partition_epoch if partition_epoch is None else partition_epoch,
            isr=tuple(IsrMember(NodeId(n), known.get(n, NO_BROKER_EPOCH)) for n in members),
        )
        decision = self.controller.alter_partitions(asking, known[asking], [change])
        self.commit(decision)
        assert decision.response.error is ErrorCode.NONE
        return decision.response.outcomes[0]

    def reassign(self, *target: int, name: str = "t", partition: int = 0) -> ErrorCode:
        return self._reassign(name, partition, tuple(NodeId(node) for node in target))

    def cancel(self, *, name: str = "t", partition: int = 0) -> ErrorCode:
        return self._reassign(name, partition, None)

    def _reassign(
        self, name: str, partition: int, replicas: tuple[NodeId, ...] | None
    ) -> ErrorCode:
        asked = Reassignment(TopicPartition(name, partition), replicas)
        decision = self.controller.reassign([asked])
        self.commit(decision)
        return decision.response[0].error

    def _make(self, image: Image) -> Controller:
        return Controller(
            image, self.rules, self.random, cluster=self.cluster, safeguards=self.safeguards
        )


def check_epochs(delta: Delta) -> None:
    """I3: neither epoch of a partition goes back, and a new leader has a new one."""
    for change in delta.partitions.values():
        before, after = change.before, change.after
        if before is None:
            continue
        assert after.partition_epoch > before.partition_epoch
        assert after.leader_epoch >= before.leader_epoch
        assert after.leader == before.leader or after.leader_epoch > before.leader_epoch
    for node in delta.nodes.values():
        if node.before is not None and node.after is not None:
            assert node.after.epoch >= node.before.epoch

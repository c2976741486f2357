"""Somebody who has an unclean election made between a replica with records and one that was wiped.

On topics of two replicas, in which one in sync is enough, and which nobody else uses: an unclean
election gives up records, and no checker is to miss those. One node goes with all that was written
so far, and is out of sync; the other writes on alone, goes, and comes back with an empty directory.
Then an election is asked for, or the topic is made to allow it. What the first node has, while it
is up all the time, must still be there.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tidelog.metadata.image import PartitionState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, NO_TOPIC_ID
from tidelog.partition.replica import Replica
from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer
from tidelog.sim.cluster import Cluster
from tidelog.sim.host import Host
from tidelog.sim.replicated.directories import WIPED
from tidelog.sim.replicated.invariants import Invariants
from tidelog.sim.replicated.nemesis import Nemesis
from tidelog.sim.replicated.router import Router
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload import produce
from tidelog.sim.workload.world import TopicFacts
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_TIMEOUT_MS = 1_000
_ALL = -1
_AWAITED = 100
_LOOK_MS = 20.0
_ELECTED_MS = 2_400.0
"""Shorter than a controller's patience with a node that is up and silent."""
_UNCLEAN = 1
_TOPIC = 2
_SET = 0
_GONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class UncleanElections:
    """Of one run, one topic after another."""

    def __init__(
        self, cluster: Cluster, invariants: Invariants, nemesis: Nemesis, random: Random
    ) -> None:
        self._cluster = cluster
        self._invariants = invariants
        self._nemesis = nemesis
        self._random = random
        self._router = Router(cluster, "unclean", random)

    def go_on(self) -> Script[None]:
        """Until the world is over. Each topic is deleted in the end, whatever became of it."""
        number = 0
        while not self._cluster.world.is_over:
            yield Pause(self._random.uniform(0.0, 300.0))
            number += 1
            name = f"spare{number}"
            self._invariants.spared.add(name)
            full, wiped = self._random.sample(list(self._cluster.hosts.values()), 2)
            yield from self._play(name, full, wiped)
            for host in (full, wiped):
                self._release(host)
            yield from self._delete(name)
        self._router.hang_up()

    def _play(self, name: str, full: Host, wiped: Host) -> Script[None]:
        yield from self._create(name, wiped, full)
        if not (yield from self._await(lambda: self._leads(name, wiped))):
            return
        state = self._state(name)
        assert state is not None
        yield from self._write(state, wiped)
        if not (yield from self._await(lambda: _end_of(full, state) == _end_of(wiped, state))):
            return
        if _end_of(full, state) == (-1, 0) or self._nemesis.is_over:
            return
        self._take_down(full)
        if not (yield from self._await(lambda: self._isr(name) == (wiped.node_id,))):
            return
        yield from self._write(state, wiped)
        self._take_down(wiped)
        self._release(full)
        if not (yield from self._wipe(wiped)):
            return
        self._release(wiped)
        if not (yield from self._await(lambda: self._needs_election(name, full, wiped))):
            return
        yield from self._elect(state, full)

    # --- nodes ---------------------------------------------------------------------------------

    def _take_down(self, host: Host) -> None:
        if not self._nemesis.is_over:
            self._nemesis.plots.held.append(host)
            host.crash("kill")

    def _release(self, host: Host) -> None:
        if host in self._nemesis.plots.held:
            self._nemesis.plots.held.remove(host)

    def _wipe(self, host: Host) -> Script[bool]:
        """By the rule of `directories.py`, once the cluster has noticed that the node is down."""
        directories = self._nemesis.directories
        if host.is_up:
            return False
        directories.condemn(host, WIPED)
        is_wiped = yield from self._await(
            lambda: (
                not host.is_up
                and directories.is_condemned(host)
                and not self._invariants.image.is_usable(host.node_id)
                and directories.strike(host)
            )
        )
        directories.pardon(host)
        return is_wiped

    # --- the election --------------------------------------------------------------------------

    def _needs_election(self, name: str, full: Host, wiped: Host) -> bool:
        state = self._state(name)
        return (
            state is not None
            and state.leader == NO_LEADER
            and full.node_id not in state.elr
            and all(self._is_there(host, state) for host in (full, wiped))
        )

    def _is_there(self, host: Host, state: PartitionState) -> bool:
        is_serving = host.life is not None and host.life.node.is_serving
        is_usable = self._invariants.image.is_usable(host.node_id)
        return is_serving and is_usable and _replica_at(host, state) is not None

    def _elect(self, state: PartitionState, full: Host) -> Script[None]:
        """Ask for it, or allow it; and look whether what the full replica has is kept."""
        life, held = full.life, _end_of(full, state)
        schedule, name = self._cluster.schedule, state.name.topic
        until_ms = schedule.now_ms + _ELECTED_MS
        request, version = self._request(state)
        client = self._router.at(self._router.anybody())
        client.call(request, version, timeout_ms=_TIMEOUT_MS)
        while schedule.now_ms < until_ms and not self._nemesis.is_over:
            if full.life is not life or not self._invariants.image.is_usable(full.node_id):
                return
            now = self._state(name)
            if now is not None and now.leader != NO_LEADER:
                self._check_kept(now, full, held)
                return
            yield Pause(1.0)

    def _request(self, state: PartitionState) -> tuple[Any, int]:
        name = state.name.topic
        if self._random.random() < 0.5:
            wanted = TopicPartitions(topic=name, partitions=[0])
            return ElectLeadersRequest(election_type=_UNCLEAN, topic_partitions=[wanted]), 2
        config = AlterableConfig(
            name="unclean.leader.election.enable", config_operation=_SET, value="true"
        )
        resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[config])
        return IncrementalAlterConfigsRequest(resources=[resource]), 1

    def _check_kept(self, state: PartitionState, full: Host, held: tuple[int, int]) -> None:
        """The node that was elected has what the full replica had."""
        self._cluster.world.counted["unclean election"] += 1
        leader = self._cluster.hosts[state.leader]
        has = _end_of(leader, state)
        if leader.life is not None and has < held:
            text = f"{state.name}: node {state.leader} leads with {has} (last epoch, end)"
            text += f", and node {full.node_id}, which was up, had {held}"
            self._cluster.world.findings.append(Finding("unclean", text))

    # --- the topic -----------------------------------------------------------------------------

    def _create(self, name: str, *hosts: Host) -> Script[None]:
        nodes = [int(host.node_id) for host in hosts]
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=nodes)],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="1")],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        yield from self._router.ask_anybody(request, 5, timeout_ms=1_500)

    def _write(self, state: PartitionState, leader: Host) -> Script[None]:
        facts = TopicFacts(state.name.topic, state.name.topic, state.key.topic_id, 1, "ack")
        for _ in range(self._random.randint(1, 4)):
            world = self._cluster.world
            batch = produce.sample(
                self._random, world, topic=facts, partition=0, may_be_flawed=False
            )
            request = produce.build([batch], acks=_ALL, timeout_ms=_TIMEOUT_MS)
            yield self._router.at(leader.node_id).call(request, 9, timeout_ms=300)

    def _delete(self, name: str) -> Script[None]:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=NO_TOPIC_ID)],
            topic_names=[name],
            timeout_ms=_TIMEOUT_MS,
        )
        while True:
            reply = yield from self._router.ask_anybody(request, 6, timeout_ms=1_500)
            if isinstance(reply, Answer) and reply.body.responses[0].error_code in _GONE:
                return
            yield Pause(30.0)

    # --- looking -------------------------------------------------------------------------------

    def _state(self, name: str) -> PartitionState | None:
        topic = self._invariants.image.topics.get(name)
        return None if topic is None else topic.partitions[0]

    def _leads(self, name: str, host: Host) -> bool:
        state = self._state(name)
        replica = None if state is None else _replica_at(host, state)
        return replica is not None and replica.leader is not None

    def _isr(self, name: str) -> tuple[int, ...]:
        state = self._state(name)
        return () if state is None else state.isr

    def _await(self, is_reached: Callable[[], bool]) -> Script[bool]:
        for _ in range(_AWAITED):
            if self._nemesis.is_over:
                return False
            if is_reached():
                return True
            yield Pause(_LOOK_MS)
        return False


def _replica_at(host: Host, state: PartitionState) -> Replica | None:
    return None if host.life is None else host.life.node.state.replicas.by_key.get(state.key)


def _end_of(host: Host, state: PartitionState) -> tuple[int, int]:
    """The epoch of the last record, and where the log ends."""
    replica = _replica_at(host, state)
    if replica is None:
        return (-1, 0)
    return (replica.log.epochs.latest, replica.log.log_end_offset)

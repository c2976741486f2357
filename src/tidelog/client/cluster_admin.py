"""Looking after a cluster: its nodes, its voters, and where its partitions are.

Kafka's own requests, asked over a connection of our own (`direct.py`), since librdkafka has no
calls for them. Any node hands on to the controller what only the controller decides; what concerns
the voters is asked of the quorum's leader, who is looked for first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.client import direct
from tidelog.client.connection import Bootstrap, connection_to
from tidelog.client.errors import ClientError, NoBroker
from tidelog.model.clock_settings import CLOCK_CONFIRMED
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint, TopicPartition
from tidelog.model.replica_settings import FOLLOWER_RATE
from tidelog.wire.messages import add_raft_voter, alter_partition_reassignments, elect_leaders
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.wire.messages.describe_quorum import (
    DescribedPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    TopicData,
)
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest

THROTTLED_FOLLOWERS = "follower.replication.throttled.replicas"

_BROKERS = 4
_SET, _DELETE = 0, 1
_PAUSE_S = 0.1
_VOTER_TIMEOUT_S = 60.0
_LISTENER = "PLAINTEXT"
_NO_CONTROLLER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER)


class ClusterNode(NamedTuple):
    """A node that is registered; fenced if the controller does not hear of it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool

    @property
    def address(self) -> str:
        return str(Endpoint(self.host, self.port))


class ClusterView(NamedTuple):
    """`controller` is -1 while none is known."""

    cluster_id: str
    controller: int
    nodes: dict[int, ClusterNode]

    @property
    def bootstrap(self) -> str:
        """Addresses of all that are there."""
        return ",".join(node.address for node in self.nodes.values() if not node.is_fenced)


class QuorumReplica(NamedTuple):
    """One replica of the metadata log; `lag` in records behind the leader's."""

    node_id: int
    directory_id: UUID
    lag: int


@dataclass(frozen=True, slots=True)
class QuorumView:
    """Who agrees on the metadata, and who merely follows it."""

    leader: int
    epoch: int
    high_watermark: int
    voters: dict[int, QuorumReplica]
    observers: dict[int, QuorumReplica]


class Move(NamedTuple):
    """A partition that is being moved: all its replicas, and which come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ClusterAdmin:
    """Every failure is a `ClientError`."""

    def __init__(self, bootstrap: Bootstrap = None) -> None:
        self._connection = connection_to(bootstrap)
        if not direct.is_possible(self._connection):
            raise ClientError("a cluster can't be looked after over TLS or SASL from here")

    # --- who is there ---------------------------------------------------------------------------

    def view(self) -> ClusterView:
        """All nodes that are registered."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=True
        )
        try:
            answer = direct.ask_any(self._connection, request)
        except NoBroker:
            self._raise_if_starting()
            raise
        _check(answer.error_code, answer.error_message)
        nodes = {
            row.broker_id: ClusterNode(row.broker_id, row.host, row.port, row.rack, row.is_fenced)
            for row in sorted(answer.brokers, key=lambda row: row.broker_id)
        }
        return ClusterView(answer.cluster_id, answer.controller_id, nodes)

    def _raise_if_starting(self) -> None:
        """A node that has not caught up with its cluster serves no clients, but tells how its
        voters are doing."""
        try:
            answer = direct.ask_any(self._connection, _about_metadata())
        except NoBroker:
            return
        where = f"a node is running at {self._connection.bootstrap}, but serves no clients"
        if _described_error(answer) in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
            raise ClientError(f"{where}: its cluster has not let it in yet; see the node's log")
        raise ClientError(
            f"{where}: it finds no controller, so it can't learn what is true in its cluster. "
            "Start the other voters: more than half of them must be up"
        )

    def quorum(self, *, patience_s: float | None = None) -> QuorumView:
        """As its leader knows it; that there is one is waited for, if need be. Where a ZooKeeper
        keeps the metadata nobody votes: then there is a leader and nothing else."""
        answer = self._ask_leader(_about_metadata(), _described_error, patience_s=patience_s)
        if answer.error_code is ErrorCode.UNSUPPORTED_VERSION:
            return QuorumView(self.view().controller, -1, -1, {}, {})
        return _quorum_view(answer.topics[0].partitions[0])

    def lags(self, topic: str, partitions: Sequence[int]) -> dict[int, dict[TopicPartition, int]]:
        """Of each node that answers: how many records each of its copies lacks."""
        request = DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=topic, partitions=list(partitions))]
        )
        return {
            node.node_id: lags
            for node in self.view().nodes.values()
            if not node.is_fenced and (lags := self._lags_of(node, request)) is not None
        }

    def _lags_of(
        self, node: ClusterNode, request: DescribeLogDirsRequest
    ) -> dict[TopicPartition, int] | None:
        try:
            answer = direct.ask(self._connection, (node.host, node.port), request)
        except ClientError:
            return None
        return {
            TopicPartition(topic.name, row.partition_index): row.offset_lag
            for directory in answer.results
            for topic in directory.topics
            for row in topic.partitions
        }

    # --- where partitions are -------------------------------------------------------------------

    def moves(self) -> dict[TopicPartition, Move]:
        """What is being moved now."""
        answer = direct.ask_any(self._connection, ListPartitionReassignmentsRequest())
        _check(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): Move(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    def move(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begin to move each partition to its target; None takes back what is being done. A
        `ClientError` for the first that was refused, when the others have been begun."""
        wire = alter_partition_reassignments
        topics: dict[str, wire.ReassignableTopic] = {}
        for (name, partition), replicas in targets.items():
            topic = topics.setdefault(name, wire.ReassignableTopic(name=name, partitions=[]))
            topic.partitions.append(
                wire.ReassignablePartition(
                    partition_index=partition,
                    replicas=None if replicas is None else list(replicas),
                )
            )
        request = AlterPartitionReassignmentsRequest(topics=list(topics.values()))
        answer = direct.ask_any(self._connection, request)
        _check(answer.error_code, answer.error_message)
        for topic_answer in answer.responses:
            for row in topic_answer.partitions:
                where = f"partition {row.partition_index} of {topic_answer.name}: "
                _check(row.error_code, row.error_message, where=where)

    def elect(
        self, places: Iterable[TopicPartition] | None = None, *, is_unclean: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """Elect leaders of these partitions, or of all that need it; what became of each."""
        topics: dict[str, list[int]] = {}
        for topic, partition in places or ():
            topics.setdefault(topic, []).append(partition)
        rows = [
            elect_leaders.TopicPartitions(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ]
        request = ElectLeadersRequest(
            election_type=int(is_unclean), topic_partitions=None if places is None else rows
        )
        answer = direct.ask_any(self._connection, request)
        _check(answer.error_code, None)
        return {
            TopicPartition(topic.topic, row.partition_id): row.error_code
            for topic in answer.replica_election_results
            for row in topic.partition_result
        }

    def limit_moves(self, bytes_per_second: int | None) -> None:
        """How much each node may fetch for throttled copies; None for no limit again."""
        value = None if bytes_per_second is None else str(bytes_per_second)
        self._set_for_all_nodes(FOLLOWER_RATE, value)

    def confirm_clock(self, wall_ms: int) -> None:
        """Let every node whose wall clock shows about this time believe its clock."""
        self._set_for_all_nodes(CLOCK_CONFIRMED, str(wall_ms))

    def _set_for_all_nodes(self, name: str, value: str | None) -> None:
        """Change a setting of running nodes; None takes it back."""
        operation = _DELETE if value is None else _SET
        config = AlterableConfig(name=name, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=_BROKERS, resource_name="", configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        for row in direct.ask_any(self._connection, request).responses:
            _check(row.error_code, row.error_message)

    # --- members --------------------------------------------------------------------------------

    def add_voter(self, node: ClusterNode, directory_id: UUID) -> None:
        """Give a node that follows the metadata a vote; waits until it has caught up."""
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=int(_VOTER_TIMEOUT_S * 1000),
            voter_id=node.node_id,
            voter_directory_id=directory_id,
            listeners=[add_raft_voter.Listener(name=_LISTENER, host=node.host, port=node.port)],
        )
        self._change_voters(request, done=ErrorCode.DUPLICATE_VOTER)

    def remove_voter(self, node_id: int, directory_id: UUID) -> None:
        """Take a node's vote away."""
        request = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=node_id, voter_directory_id=directory_id
        )
        self._change_voters(request, done=ErrorCode.VOTER_NOT_FOUND)

    def _change_voters(self, request: Any, *, done: ErrorCode) -> None:
        """An answer that was lost is asked for again: `done` says then that it had been done."""
        answer = self._ask_leader(request, lambda told: told.error_code, extra_s=_VOTER_TIMEOUT_S)
        if answer.error_code is not done:
            _check(answer.error_code, answer.error_message)

    def unregister(self, node_id: int) -> None:
        """Forget a node that is switched off for good."""
        request = UnregisterBrokerRequest(broker_id=node_id)
        answer = direct.ask_any(self._connection, request)
        if answer.error_code is not ErrorCode.BROKER_ID_NOT_REGISTERED:
            _check(answer.error_code, answer.error_message)

    def _ask_leader(
        self,
        request: Any,
        error_of: Callable[[Any], ErrorCode],
        *,
        extra_s: float = 0.0,
        patience_s: float | None = None,
    ) -> Any:
        """Asked again while an election is under way. `extra_s`: how long the answer may take
        beyond what is usual."""
        timeout_s = self._connection.timeout_s
        patient = replace(self._connection, timeout_s=timeout_s + extra_s)
        deadline = time.monotonic() + (timeout_s if patience_s is None else patience_s)
        while True:
            view = self.view()
            leader = view.nodes.get(view.controller)
            if leader is not None:
                try:
                    answer = direct.ask(patient, (leader.host, leader.port), request)
                except NoBroker:
                    answer = None
                if answer is not None and error_of(answer) not in _NO_CONTROLLER:
                    return answer
            if time.monotonic() >= deadline:
                raise ClientError(
                    "the cluster has no controller at the moment: more than half of its voters "
                    "must be up"
                )
            time.sleep(_PAUSE_S)


def _about_metadata() -> DescribeQuorumRequest:
    partition = PartitionData(partition_index=0)
    topic = TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


def _described_error(answer: DescribeQuorumResponse) -> ErrorCode:
    """Who does not know the question answers for no topic."""
    return answer.topics[0].partitions[0].error_code if answer.topics else answer.error_code


def _quorum_view(told: DescribedPartitionData) -> QuorumView:
    rows = [*told.current_voters, *told.observers]
    end = max((row.log_end_offset for row in rows if row.replica_id == told.leader_id), default=0)

    def shown(rows: list[ReplicaState]) -> dict[int, QuorumReplica]:
        return {
            row.replica_id: QuorumReplica(
                row.replica_id,
                row.replica_directory_id,
                max(0, end - max(0, row.log_end_offset)),
            )
            for row in sorted(rows, key=lambda row: row.replica_id)
        }

    return QuorumView(
        told.leader_id,
        told.leader_epoch,
        told.high_watermark,
        shown(told.current_voters),
        shown(told.observers),
    )


def _check(code: ErrorCode, message: str | None, *, where: str = "") -> None:
    if code is not ErrorCode.NONE:
        raise ClientError(f"{where}{message or code.explanation} ({code.name})")

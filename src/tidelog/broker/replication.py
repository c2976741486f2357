"""A node's part in replication: it fetches what others lead, and tells the controller who keeps up.

The machines are in `partition/`; here their values become calls to other nodes, and the answers
find their way back. One fetch per leading node is under way at a time, for all partitions that are
followed from it; proposals for in-sync sets travel together, one request at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidelog.broker.controller_link import ControllerLink
from tidelog.broker.peers import Peers, Then
from tidelog.broker.state import BrokerState
from tidelog.log.disk import DiskError
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint, NodeId, PartitionKey, TopicId
from tidelog.partition.fetcher import Fetcher, SendFetch
from tidelog.partition.isr import ProposeIsr
from tidelog.partition.membership import Membership
from tidelog.wire.messages import alter_partition as wire
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.fetch import FetchResponse

_PROPOSAL_TIMEOUT_MS = 2_000.0
_FETCH_GRACE_MS = 1_500.0
"""Beyond what the leader may keep a fetch waiting."""


class Replication:
    """All partitions of this node that somebody else leads, or follows."""

    def __init__(
        self,
        state: BrokerState,
        peers: Peers,
        link: ControllerLink,
        membership: Membership,
        *,
        endpoint_of: Callable[[NodeId], Endpoint | None],
    ) -> None:
        self._state = state
        self._peers = peers
        self._link = link
        self._membership = membership
        self._endpoint_of = endpoint_of
        self._fetchers: dict[NodeId, Fetcher] = {}
        self._sources: dict[PartitionKey, NodeId] = {}
        self._is_proposing = False
        self._check_ms = 0.0

    # --- following the metadata -----------------------------------------------------------------

    def follow(self, keys: Iterable[PartitionKey]) -> None:
        """The roles of these partitions may be others now."""
        for key in keys:
            source = self._sources.pop(key, None)
            if source is not None:
                self._fetchers[source].remove(key)
            replica = self._state.replicas.by_key.get(key)
            if replica is None or replica.follower is None:
                continue
            source = replica.follower.source
            fetcher = self._fetchers.get(source)
            if fetcher is None:
                fetcher = self._fetchers[source] = Fetcher(source, self._membership)
            fetcher.add(replica.follower)
            self._sources[key] = source

    # --- time -----------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        deadlines = [fetcher.next_deadline() for fetcher in self._fetchers.values()]
        return min((at for at in deadlines if at is not None), default=self._check_ms)

    def settle(self, now: Now) -> None:
        """The end of every step: ask for what may be asked for, and say who keeps up."""
        if self._state.node_is_read_only:
            return
        for fetcher in self._fetchers.values():
            fetcher.tick(now.monotonic_ms)
            request = fetcher.next_request(now.monotonic_ms)
            if request is not None:
                self._fetch(now, fetcher, request)
        if now.monotonic_ms >= self._check_ms:
            self._check_ms = now.monotonic_ms + self._membership.settings.lag_time_max_ms / 4
            self._propose(now, self._state.replicas.by_key)
        elif self._state.heard_of:
            heard_of, self._state.heard_of = self._state.heard_of, {}
            self._propose(now, [replica.key for replica in heard_of])

    # --- fetching -------------------------------------------------------------------------------

    def _fetch(self, now: Now, fetcher: Fetcher, sent: SendFetch) -> None:
        endpoint = self._endpoint_of(sent.source)
        if endpoint is None:
            fetcher.failed(now.monotonic_ms, sent.number)
            return
        settings = self._membership.settings
        self._peers.call(
            endpoint,
            "data",
            sent.request,
            deadline_ms=now.monotonic_ms + settings.fetch_wait_max_ms + _FETCH_GRACE_MS,
            conversation=Then(
                lambda then, response: self._fetched(then, fetcher, sent.number, response),
                lambda then, reason: fetcher.failed(then.monotonic_ms, sent.number),
            ),
        )

    def _fetched(self, now: Now, fetcher: Fetcher, number: int, response: FetchResponse) -> None:
        state = self._state
        try:
            fetched = fetcher.answered(now, number, response, _NO_NAMES)
        except DiskError as error:
            state.fail_storage(error)
            return
        for key in fetched.written:
            replica = state.replicas.by_key.get(key)
            if replica is not None:
                state.touched[replica] = None
                state.flushing.touch(replica)
        for key in fetched.moved:
            replica = state.replicas.by_key.get(key)
            if replica is not None:
                state.advanced[replica] = None

    # --- the in-sync sets -----------------------------------------------------------------------

    def _propose(self, now: Now, keys: Iterable[PartitionKey]) -> None:
        if self._is_proposing or self._link.endpoint is None:
            self._check_ms = min(self._check_ms, now.monotonic_ms + 50.0)
            return
        proposals: list[ProposeIsr] = []
        for key in keys:
            replica = self._state.replicas.by_key.get(key)
            leader = None if replica is None else replica.leader
            proposal = None if leader is None else leader.propose(now.monotonic_ms)
            if proposal is not None:
                proposals.append(proposal)
        if not proposals:
            return
        self._is_proposing = self._link.ask(
            now,
            self._request(proposals),
            timeout_ms=_PROPOSAL_TIMEOUT_MS,
            conversation=Then(
                lambda then, response: self._proposed(then, proposals, response),
                lambda then, reason: self._settle_proposals(then, proposals, {}),
            ),
        )

    def _request(self, proposals: list[ProposeIsr]) -> AlterPartitionRequest:
        topics: dict[TopicId, wire.TopicData] = {}
        for proposal in proposals:
            topic_id = proposal.key.topic_id
            topic = topics.setdefault(topic_id, wire.TopicData(topic_id=topic_id, partitions=[]))
            topic.partitions.append(
                wire.PartitionData(
                    partition_index=proposal.key.partition,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    new_isr_with_epochs=[
                        wire.BrokerState(broker_id=node, broker_epoch=epoch)
                        for node, epoch in proposal.isr
                    ],
                )
            )
        return AlterPartitionRequest(
            broker_id=self._membership.node_id,
            broker_epoch=self._membership.broker_epoch,
            topics=list(topics.values()),
        )

    def _proposed(
        self, now: Now, proposals: list[ProposeIsr], response: AlterPartitionResponse
    ) -> None:
        errors: dict[PartitionKey, ErrorCode] = {
            PartitionKey(TopicId(topic.topic_id), row.partition_index): row.error_code
            for topic in response.topics
            for row in topic.partitions
        }
        if response.error_code is not ErrorCode.NONE:
            errors = {proposal.key: response.error_code for proposal in proposals}
        self._settle_proposals(now, proposals, errors)

    def _settle_proposals(
        self, now: Now, proposals: list[ProposeIsr], errors: dict[PartitionKey, ErrorCode]
    ) -> None:
        """A proposal that nothing was said about may have been accepted."""
        self._is_proposing = False
        for proposal in proposals:
            replica = self._state.replicas.by_key.get(proposal.key)
            if replica is None or replica.leader is None:
                continue
            error = errors.get(proposal.key, ErrorCode.NETWORK_EXCEPTION)
            if replica.leader.isr_answered(proposal, error, now.monotonic_ms):
                self._state.advanced[replica] = None

    def describe(self) -> list[dict[str, Any]]:
        return [
            {"source": node_id, "partitions": len(fetcher), "is_asking": fetcher.is_asking}
            for node_id, fetcher in self._fetchers.items()
        ]


_NO_NAMES: dict[str, TopicId] = {}
"""Nodes speak of topics by id."""

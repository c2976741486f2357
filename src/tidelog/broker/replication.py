"""A node's part in replication: it fetches what others lead, and tells the controller who keeps up.

The machines are in `partition/`; here their values become calls to other nodes, and the answers
find their way back. One or two fetches per leading node are under way, for all partitions that are
followed from it; proposals for in-sync sets travel together, one request at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.controller_link import ControllerLink
from tidelog.broker.peers import Peers, Then
from tidelog.broker.state import BrokerState
from tidelog.log.disk import DiskError
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint, NodeId, PartitionKey, TopicId
from tidelog.partition.fetcher import SendFetch
from tidelog.partition.isr import ProposeIsr
from tidelog.wire.messages import alter_partition as wire
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.fetch import FetchResponse

_PROPOSAL_TIMEOUT_MS = 2_000.0
FETCH_GRACE_MS = 1_500.0
"""Beyond what the leader may keep a fetch waiting."""


class Replication:
    """What `Replicas` wants sent, and what comes of it."""

    def __init__(
        self,
        state: BrokerState,
        peers: Peers,
        link: ControllerLink,
        *,
        endpoint_of: Callable[[NodeId], Endpoint | None],
    ) -> None:
        self._state = state
        self._replicas = state.replicas
        self._membership = state.replicas.membership
        self._peers = peers
        self._link = link
        self._endpoint_of = endpoint_of
        self._is_proposing = False
        self._unsent: list[ProposeIsr] = []

    def next_deadline(self) -> float | None:
        return self._replicas.next_deadline()

    def settle(self, now: Now) -> None:
        """The end of every step: ask for what may be asked for, and say who keeps up."""
        following = self._replicas.following
        following.tick(now.monotonic_ms)
        if not self._state.node_is_read_only:
            for fetch in following.next_fetches(now.monotonic_ms):
                self._fetch(now, fetch)
        self._unsent += self._replicas.take_proposals(now.monotonic_ms)
        if self._unsent and not self._is_proposing:
            self._propose(now)

    # --- fetching -------------------------------------------------------------------------------

    def _fetch(self, now: Now, fetch: SendFetch) -> None:
        endpoint = self._endpoint_of(fetch.source)
        if endpoint is None:
            self._replicas.following.failed(now.monotonic_ms, fetch)
            return
        settings = self._membership.settings
        self._peers.call(
            endpoint,
            fetch.lane,
            fetch.request,
            deadline_ms=now.monotonic_ms + settings.fetch_wait_max_ms + FETCH_GRACE_MS,
            conversation=Then(
                lambda then, response: self._fetched(then, fetch, response),
                lambda then, reason: self._replicas.following.failed(then.monotonic_ms, fetch),
            ),
        )

    def _fetched(self, now: Now, fetch: SendFetch, response: FetchResponse) -> None:
        state = self._state
        try:
            fetched = self._replicas.following.answered(now, fetch, response)
        except DiskError as error:
            state.fail_storage(error)
            return
        for key in fetched.written:
            replica = self._replicas.by_key.get(key)
            if replica is not None:
                state.wants_flush(replica)
                if state.sessions.watched:
                    state.sessions.moved((replica,))  # its end has, which need not be durable yet
        for key in fetched.moved:
            replica = self._replicas.by_key.get(key)
            if replica is not None:
                state.advanced[replica] = None

    # --- the in-sync sets -----------------------------------------------------------------------

    def _propose(self, now: Now) -> None:
        proposals, self._unsent = self._unsent, []
        self._is_proposing = self._link.ask(
            now,
            self._request(proposals),
            timeout_ms=_PROPOSAL_TIMEOUT_MS,
            conversation=Then(
                lambda then, response: self._proposed(then, proposals, response),
                lambda then, reason: self._answered(then, proposals, {}),
            ),
        )
        if not self._is_proposing:
            self._answered(now, proposals, {})

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
        self._answered(now, proposals, errors)

    def _answered(
        self, now: Now, proposals: list[ProposeIsr], errors: dict[PartitionKey, ErrorCode]
    ) -> None:
        """A proposal that nothing was said about may have been accepted."""
        self._is_proposing = False
        for proposal in proposals:
            error = errors.get(proposal.key, ErrorCode.NETWORK_EXCEPTION)
            self._replicas.isr_answered(proposal, error, now.monotonic_ms)
        self._state.roles_changed()

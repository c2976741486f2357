"""A node's place in its cluster: it registers, says every so often that it is there, and leaves.

    JOINING ──registered──► FENCED ──let in──► SERVING ──asked to stop──► LEAVING ──► LEFT
       ▲                      ▲ └──────◄──fenced──┘ │
       └──── the controller knows another epoch ────┘

A registration gives the node its *broker epoch*: what an earlier life of it asked for is refused by
that. A heartbeat that was answered is a *lease*: until it runs out, counted from when the heartbeat
was sent, the controller has given what the node leads to nobody else. It is shorter than the
session (`controller/sessions.py` says why). The lease that a controller gives to its own node is
shorter still: it ends as soon as its voters may have elected another, and with the office.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from uuid import UUID

from tidelog.broker.controller_link import RETRY_MS, ControllerLink
from tidelog.broker.peers import Then
from tidelog.controller.sessions import LEASE_SHARE
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Endpoint, NodeId, Offset, PartitionKey
from tidelog.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    DoubtfulTopic,
)
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

NO_BROKER_EPOCH = -1
RECOVERED = "tidelog.recovered"
"""The feature a node names that did not stop cleanly: it has what was flushed, and no more."""

METADATA_OUT_OF_REACH = UUID("00000000-0000-4000-8000-746964656c6f")
"""What a node names among its offline directories that can't reach the keepers of the metadata."""

_RECOVERED_FEATURE = Feature(name=RECOVERED, min_supported_version=1, max_supported_version=1)
_PLAINTEXT = 0


class Stage(Enum):
    """Where the node stands; see the module's text."""

    JOINING = "joining"
    FENCED = "fenced"
    SERVING = "serving"
    LEAVING = "leaving"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a node says of itself. `previous_epoch` is that of its last life on this directory."""

    node_id: NodeId
    cluster_id: str
    incarnation: UUID
    endpoint: Endpoint
    rack: str | None
    previous_epoch: int = NO_BROKER_EPOCH
    ended_cleanly: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """How often the node speaks up, and how long the controller waits for it."""

    heartbeat_ms: float
    session_ms: float


class Registration:
    """Of one life of a node in a cluster of several."""

    def __init__(
        self,
        identity: Identity,
        link: ControllerLink,
        patience: Patience,
        *,
        metadata_offset: Callable[[], Offset],
        office_until_ms: Callable[[], float | None] = lambda: None,
        may_join: Callable[[], bool] = lambda: True,
        is_cut_off: Callable[[], bool] = lambda: False,
        is_opening: Callable[[], bool] = lambda: False,
        may_lack: Callable[[], Iterable[PartitionKey]] = lambda: (),
    ) -> None:
        """`office_until_ms`: while this node is the controller, until when no other is elected.
        `is_opening`: not all logs have been opened yet, so it is not known what they hold.
        `may_lack`: the partitions whose logs may lack records, and the cluster does not know."""
        self._identity = identity
        self._link = link
        self._patience = patience
        self._metadata_offset = metadata_offset
        self._office_until_ms = office_until_ms
        self._may_join = may_join
        self._is_cut_off = is_cut_off
        self._is_opening = is_opening
        self._may_lack = may_lack
        self.stage = Stage.JOINING
        self.broker_epoch = NO_BROKER_EPOCH
        self.lease_until_ms = 0.0
        self._is_own_lease = False
        self.is_noted = False
        """The broker epoch is on disk: not before that may the node be let in under it."""
        self.refusal: ErrorCode | None = None
        """Why the cluster does not take this node, if it said so."""
        self.refused_ms = 0.0
        """When it said so last."""
        self._due_ms: float | None = 0.0
        self._asked = 0

    def may_lead(self, now_ms: float, *, lease_until_ms: float = 0.0) -> bool:
        """The controller has given nothing of this node's to another, for certain: by its own
        word, or because of a lease from elsewhere."""
        until_ms = max(self.lease_until_ms, lease_until_ms)
        return self.stage in (Stage.SERVING, Stage.LEAVING) and now_ms < until_ms

    def start_over(self, now: Now, incarnation: UUID) -> None:
        """The cluster counts this node as gone: it registers anew, and vouches for its logs, which
        it has had in hand all the time."""
        self.lease_until_ms = 0.0
        self._asked += 1
        if self.stage is Stage.LEAVING:
            self.stage = Stage.LEFT
        if self.stage in (Stage.FENCED, Stage.SERVING):
            self._identity = replace(
                self._identity,
                incarnation=incarnation,
                previous_epoch=self.broker_epoch,
                ended_cleanly=True,
            )
            self.stage = Stage.JOINING
        self._due_ms = now.monotonic_ms + RETRY_MS

    def took_office(self) -> None:
        """What an earlier controller has granted counts no longer than what this one grants."""
        until_ms = self._office_until_ms()
        if until_ms is not None:
            self._is_own_lease = True
            self.lease_until_ms = min(self.lease_until_ms, until_ms)

    def left_office(self) -> None:
        """Another controller may decide by now, who does not know of a lease of ours."""
        if self._is_own_lease:
            self._is_own_lease = False
            self.lease_until_ms = 0.0

    def next_deadline(self) -> float | None:
        return None if self.stage is Stage.LEFT else self._due_ms

    def tick(self, now: Now) -> None:
        """Speak up if it is time."""
        if self._due_ms is None or now.monotonic_ms < self._due_ms or self.stage is Stage.LEFT:
            return
        must_wait = not self._may_join() if self.stage is Stage.JOINING else not self.is_noted
        if must_wait:
            self._due_ms = now.monotonic_ms + RETRY_MS
            return
        self._asked += 1
        number, sent_ms = self._asked, now.monotonic_ms
        is_own = self._office_until_ms() is not None
        if self.stage is Stage.JOINING:
            conversation = Then(
                lambda then, answer: self._registered(then, number, answer),
                lambda then, reason: self._unheard(then, number),
            )
            request: object = self._registration()
        else:
            conversation = Then(
                lambda then, answer: self._heartbeat_answered(
                    then, number, sent_ms, answer, is_own=is_own
                ),
                lambda then, reason: self._unheard(then, number),
            )
            request = self._heartbeat()
        timeout_ms = self._patience.session_ms / 2
        is_sent = self._link.ask(now, request, timeout_ms=timeout_ms, conversation=conversation)
        self._due_ms = None if is_sent else now.monotonic_ms + RETRY_MS

    def met_controller(self, now: Now) -> None:
        """Another one than before: it shall know at once that this node is there, whatever the
        last one was asked and can't answer any more."""
        self._due_ms = now.monotonic_ms

    def opened_logs(self, now: Now) -> None:
        """The node knows what its logs hold: it may be unfenced, and asks for it at once."""
        if self.stage is Stage.FENCED:
            self._due_ms = now.monotonic_ms

    def leave(self, now: Now) -> None:
        """Ask to be let go: what this node leads moves first."""
        if self.stage is Stage.JOINING:
            self.stage = Stage.LEFT
        elif self.stage in (Stage.FENCED, Stage.SERVING):
            self.stage = Stage.LEAVING
            self._due_ms = now.monotonic_ms

    def describe(self) -> dict[str, object]:
        return {"stage": self.stage.value, "broker_epoch": self.broker_epoch}

    # --- what is said, and what comes back ------------------------------------------------------

    def _registration(self) -> BrokerRegistrationRequest:
        identity = self._identity
        host, port = identity.endpoint
        return BrokerRegistrationRequest(
            broker_id=identity.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation,
            listeners=[
                Listener(name="PLAINTEXT", host=host, port=port, security_protocol=_PLAINTEXT)
            ],
            features=[] if identity.ended_cleanly else [_RECOVERED_FEATURE],
            rack=identity.rack,
            previous_broker_epoch=identity.previous_epoch,
        )

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=self.stage is Stage.FENCED and self._is_opening(),
            want_shut_down=self.stage is Stage.LEAVING,
            offline_log_dirs=[METADATA_OUT_OF_REACH] if self._is_cut_off() else [],
            doubtful_topics=[
                DoubtfulTopic(topic_id=key.topic_id, partitions=[key.partition])
                for key in self._may_lack()
            ],
        )

    def _registered(self, now: Now, number: int, answer: BrokerRegistrationResponse) -> None:
        if number != self._asked or self.stage is not Stage.JOINING:
            return
        if answer.error_code is not ErrorCode.NONE:
            self.refusal, self.refused_ms = answer.error_code, now.monotonic_ms
            self._due_ms = now.monotonic_ms + RETRY_MS
            return
        self.refusal = None
        self.is_noted = self.is_noted and self.broker_epoch == answer.broker_epoch
        self.broker_epoch = answer.broker_epoch
        self.stage = Stage.FENCED
        self._due_ms = now.monotonic_ms

    def _heartbeat_answered(
        self,
        now: Now,
        number: int,
        sent_ms: float,
        answer: BrokerHeartbeatResponse,
        *,
        is_own: bool,
    ) -> None:
        if number != self._asked or self.stage is Stage.LEFT:
            return
        if answer.error_code is not ErrorCode.NONE:
            is_unknown = answer.error_code in (
                ErrorCode.STALE_BROKER_EPOCH,
                ErrorCode.BROKER_ID_NOT_REGISTERED,
            )
            if is_unknown:
                self.stage = Stage.LEFT if self.stage is Stage.LEAVING else Stage.JOINING
            self._due_ms = now.monotonic_ms + RETRY_MS
            return
        self._due_ms = now.monotonic_ms + self._patience.heartbeat_ms
        if not answer.is_caught_up:
            self._due_ms = now.monotonic_ms + min(RETRY_MS, self._patience.heartbeat_ms)
        elif not answer.is_fenced:
            self._renew_lease(sent_ms, is_own=is_own)
        if self.stage is Stage.LEAVING:
            if answer.should_shut_down:
                self.stage = Stage.LEFT
            else:
                self._due_ms = now.monotonic_ms + RETRY_MS
        else:
            self.stage = Stage.FENCED if answer.is_fenced else Stage.SERVING
            if answer.is_fenced:
                self._due_ms = now.monotonic_ms + RETRY_MS

    def _renew_lease(self, sent_ms: float, *, is_own: bool) -> None:
        lease_ms = sent_ms + LEASE_SHARE * self._patience.session_ms
        office_ms = self._office_until_ms()
        if is_own != (office_ms is not None):
            return  # the controller has changed since it was asked: the next answer counts
        self._is_own_lease = is_own
        self.lease_until_ms = lease_ms if office_ms is None else min(lease_ms, office_ms)

    def _unheard(self, now: Now, number: int) -> None:
        if number == self._asked:
            self._due_ms = now.monotonic_ms + RETRY_MS

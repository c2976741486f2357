"""Nodes of the cluster: registering at each start, and leaving for good.

A registration gets the next broker epoch, and the node is fenced until it has caught up with the
metadata. The node may vouch for its logs with `previous_epoch`: the epoch it had when it last ran
on this directory. If it was not let in under a later one, it stays eligible where it was: after a
clean stop everywhere, after a crash (`has_crashed`) where records count only once they are flushed,
since a crash takes nothing that counted. Otherwise it may have lost records (a wiped or an old
directory, records that counted unflushed), and is removed from the ISR and ELR until it has fetched
again. Only where nobody else will ever have more it stays eligible: where it is the one replica
there is, and, if it is a crash that may have cost something, where all others that had everything
have crashed before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tidelog.controller.decision import Decision
from tidelog.controller.elections import Loss, PartitionChange
from tidelog.controller.node_changes import (
    Losses,
    all_lost,
    nothing_lost,
    plan_arrival,
    plan_departure,
)
from tidelog.metadata.image import Image, Listener, NodeState, PartitionState
from tidelog.metadata.records import (
    ListenerRecord,
    MetadataRecord,
    NodeRecord,
    UnregisterNodeRecord,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_BROKER_EPOCH, NO_TOPIC_ID, BrokerEpoch, NodeId
from tidelog.model.limits import MAX_NODES
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

NO_INCARNATION: UUID = NO_TOPIC_ID

FLUSH_POLICY = "flush.policy"
FLUSHED_FIRST = "ack"


@dataclass(frozen=True, slots=True)
class Registration:
    """A node as it announces itself. `incarnation_id` is new with each of its processes; without a
    `cluster_id` it takes any cluster for its own."""

    node_id: NodeId
    listeners: tuple[Listener, ...]
    rack: str | None = None
    incarnation_id: UUID = NO_INCARNATION
    previous_epoch: BrokerEpoch = NO_BROKER_EPOCH
    has_crashed: bool = False
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class RegistrationOutcome:
    """The broker epoch that the node now has; -1 with an error."""

    error: ErrorCode = ErrorCode.NONE
    epoch: BrokerEpoch = NO_BROKER_EPOCH


def decide_register(
    image: Image,
    asked: Registration,
    *,
    has_session: bool,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[RegistrationOutcome]:
    """`has_session`: a node of this id was heard of within its session."""
    known = image.nodes.get(asked.node_id)
    error = _refusal(image, asked, known, has_session=has_session)
    if error is not ErrorCode.NONE:
        return Decision([], RegistrationOutcome(error))
    if known is not None and _is_same_process(asked, known):
        return Decision([], RegistrationOutcome(epoch=known.epoch))
    record = _node_record(image, asked, is_fenced=True)
    after, _ = image.replay([record])
    gone = plan_departure(
        after,
        asked.node_id,
        losses=_losses(after, asked, known, safeguards),
        safeguards=safeguards,
    )
    return Decision([record, *gone], RegistrationOutcome(epoch=BrokerEpoch(record.epoch)))


def decide_start_alone(
    image: Image, asked: Registration, *, safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS
) -> Decision[RegistrationOutcome]:
    """The start of a node that is its own controller: it knows the metadata, so it is not fenced
    first, and leads on what it led. After a crash all of it gets a new leader epoch: the logs may
    be shorter than what was read from them under `flush.policy=os`, and only a new epoch lets a
    client notice."""
    node_id = asked.node_id
    is_trusted = _has_all_it_had(asked, image.nodes.get(node_id), safeguards)
    record = _node_record(image, asked, is_fenced=False)
    after, _ = image.replay([record])
    records: list[MetadataRecord] = [record]
    if not is_trusted:
        records += _plan_crashed(after, node_id, safeguards)
        after, _ = image.replay(records)
    records += plan_arrival(after, node_id, safeguards=safeguards)
    return Decision(records, RegistrationOutcome(epoch=BrokerEpoch(record.epoch)))


def decide_unregister(
    image: Image, node_id: NodeId, *, safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS
) -> Decision[ErrorCode]:
    """The node is gone for good: one that is alive is refused. It stays in the replicas of what it
    kept, so that people see what is to be moved; but in no ISR and no ELR, since nobody could tell
    a successor from it."""
    node = image.nodes.get(node_id)
    if node is None:
        return Decision([], ErrorCode.BROKER_ID_NOT_REGISTERED)
    if not node.is_fenced:
        return Decision([], ErrorCode.INVALID_REQUEST)
    record = UnregisterNodeRecord(node_id=node_id, epoch=node.epoch)
    after, _ = image.replay([record])
    gone = plan_departure(after, node_id, losses=all_lost, safeguards=safeguards)
    return Decision([record, *gone], ErrorCode.NONE)


def check_broker_epoch(
    image: Image, node_id: NodeId, epoch: int, safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS
) -> ErrorCode:
    """Whether who speaks is the node that is registered now, and not one of its former lives."""
    node = image.nodes.get(node_id)
    if node is None:
        return ErrorCode.STALE_BROKER_EPOCH
    if Safeguard.BROKER_EPOCH in safeguards and node.epoch != epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def _refusal(
    image: Image, asked: Registration, known: NodeState | None, *, has_session: bool
) -> ErrorCode:
    if asked.cluster_id and image.cluster_id and asked.cluster_id != image.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if asked.node_id < 0 or not asked.listeners:
        return ErrorCode.INVALID_REGISTRATION
    if known is None:
        is_full = len(image.nodes) >= MAX_NODES
        return ErrorCode.INVALID_REGISTRATION if is_full else ErrorCode.NONE
    if _is_same_process(asked, known):
        return ErrorCode.NONE
    if has_session and not known.is_shutting_down:
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    return ErrorCode.NONE


def _is_same_process(asked: Registration, known: NodeState) -> bool:
    """A registration whose answer was lost comes again."""
    return asked.incarnation_id == known.incarnation_id != NO_INCARNATION


def _has_all_it_had(
    asked: Registration, known: NodeState | None, safeguards: frozenset[Safeguard]
) -> bool:
    if Safeguard.CLEAN_MARK not in safeguards:
        return True
    if known is None or asked.previous_epoch == NO_BROKER_EPOCH:
        return False
    return known.served_epoch <= asked.previous_epoch <= known.epoch


def _losses(
    image: Image,
    asked: Registration,
    known: NodeState | None,
    safeguards: frozenset[Safeguard],
) -> Losses:
    """Where the node may have less than the cluster counts on. After a crash on the directory that
    is known, that is where records count before they are flushed."""
    if not _has_all_it_had(asked, known, safeguards):
        return all_lost
    if not asked.has_crashed or Safeguard.CLEAN_MARK not in safeguards:
        return nothing_lost

    def what_was_unflushed(state: PartitionState) -> Loss:
        topic = image.topics[state.name.topic]
        flushes_first = image.topic_value(topic, FLUSH_POLICY) == FLUSHED_FIRST
        return Loss.NOTHING if flushes_first else Loss.UNFLUSHED

    return what_was_unflushed


def _plan_crashed(
    image: Image, node_id: NodeId, safeguards: frozenset[Safeguard]
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for state in image.partitions_on(node_id):
        if node_id not in (*state.isr, *state.elr):
            continue
        change = PartitionChange(image, state, safeguards=safeguards)
        if change.has_only(node_id):
            change.must_bump_epoch = True
        else:
            change.remove(node_id, Loss.ANYTHING)
        record = change.record()
        if record is not None:
            records.append(record)
    return records


def _node_record(image: Image, asked: Registration, *, is_fenced: bool) -> NodeRecord:
    known = image.nodes.get(asked.node_id)
    return NodeRecord(
        node_id=asked.node_id,
        host=asked.listeners[0].host,
        port=asked.listeners[0].port,
        rack=asked.rack,
        epoch=image.last_broker_epoch + 1,
        incarnation_id=asked.incarnation_id,
        is_fenced=is_fenced,
        served_epoch=NO_BROKER_EPOCH if known is None else known.served_epoch,
        listeners=[
            ListenerRecord(
                name=each.name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in asked.listeners
        ],
    )

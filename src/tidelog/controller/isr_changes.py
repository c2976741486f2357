"""AlterPartition: a leader asks for another ISR.

The leader knows who has caught up; the controller knows who is registered and alive. So the leader
says which *registration* of each member it means (the broker epoch): a member that has restarted
since it fetched may have lost what it had fetched, and is refused. The request also names the
leader epoch and the partition epoch it was made in; one that was overtaken changes nothing.

A leader that does not name itself resigns: its log is damaged, or its disk full. It is neither in
sync nor eligible from then on, and one of those it names leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.controller.decision import Decision
from tidelog.controller.elections import Loss, PartitionChange
from tidelog.controller.node_changes import usual_election
from tidelog.controller.registry import check_broker_epoch
from tidelog.metadata.image import Image, PartitionState
from tidelog.metadata.records import MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_BROKER_EPOCH, NodeId, PartitionKey
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A member as the leader knows it; without an epoch, whichever registration it has now."""

    node_id: NodeId
    epoch: int = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class IsrChange:
    """One partition's new ISR, and the epochs in which the leader wants it."""

    key: PartitionKey
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True)
class IsrOutcome:
    """`state` is the partition after the change; None with an error."""

    key: PartitionKey
    error: ErrorCode = ErrorCode.NONE
    state: PartitionState | None = None


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """`error` is about the node that asked; the outcomes are then empty."""

    error: ErrorCode = ErrorCode.NONE
    outcomes: tuple[IsrOutcome, ...] = ()


def decide_alter_partitions(
    image: Image,
    node_id: NodeId,
    epoch: int,
    changes: Sequence[IsrChange],
    *,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[IsrAnswer]:
    """Each partition on its own; one named twice is refused the second time, as overtaken."""
    error = check_broker_epoch(image, node_id, epoch, safeguards)
    if error is not ErrorCode.NONE:
        return Decision([], IsrAnswer(error))
    records: list[MetadataRecord] = []
    outcomes: list[IsrOutcome] = []
    done: set[PartitionKey] = set()
    for asked in changes:
        if asked.key in done:
            outcomes.append(IsrOutcome(asked.key, ErrorCode.INVALID_UPDATE_VERSION))
            continue
        done.add(asked.key)
        outcomes.append(_decide_one(image, node_id, asked, records, safeguards))
    return Decision(records, IsrAnswer(outcomes=tuple(outcomes)))


def _decide_one(
    image: Image,
    node_id: NodeId,
    asked: IsrChange,
    records: list[MetadataRecord],
    safeguards: frozenset[Safeguard],
) -> IsrOutcome:
    state = image.partition(asked.key)
    if state is None:
        is_known = image.topic_by_id(asked.key.topic_id) is not None
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_known else ErrorCode.UNKNOWN_TOPIC_ID
        return IsrOutcome(asked.key, unknown)
    error = _refusal(image, node_id, state, asked, safeguards)
    if error is not ErrorCode.NONE:
        return IsrOutcome(asked.key, error)
    change = PartitionChange(image, state, safeguards=safeguards)
    change.election = usual_election(image, state)
    change.isr = [member.node_id for member in asked.isr]
    if node_id not in change.isr:
        change.remove(node_id, Loss.ANYTHING)
    record = change.record()
    if record is None:
        return IsrOutcome(asked.key, state=state)
    records.append(record)
    after = state.changed(record)
    if after.leader != state.leader:
        # It resigns, or the reassignment that this ISR completes moves the leader elsewhere.
        return IsrOutcome(asked.key, ErrorCode.NEW_LEADER_ELECTED)
    if after.leader_epoch != state.leader_epoch:
        return IsrOutcome(asked.key, ErrorCode.FENCED_LEADER_EPOCH)
    return IsrOutcome(asked.key, state=after)


def _refusal(
    image: Image,
    node_id: NodeId,
    state: PartitionState,
    asked: IsrChange,
    safeguards: frozenset[Safeguard],
) -> ErrorCode:
    is_from_the_future = (
        asked.leader_epoch > state.leader_epoch or asked.partition_epoch > state.partition_epoch
    )
    if is_from_the_future:
        # Somebody else decides by now, and this controller has not noticed.
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if node_id != state.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = [member.node_id for member in asked.isr]
    is_sound = (
        bool(members)
        and len(set(members)) == len(members)
        and all(member in state.replicas for member in members)
    )
    if not is_sound:
        return ErrorCode.INVALID_REQUEST
    if not all(_may_be_in_sync(image, member, safeguards) for member in asked.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _may_be_in_sync(image: Image, member: IsrMember, safeguards: frozenset[Safeguard]) -> bool:
    if not image.is_usable(member.node_id):
        return False
    if member.epoch == NO_BROKER_EPOCH or Safeguard.BROKER_EPOCH not in safeguards:
        return True
    return image.nodes[member.node_id].epoch == member.epoch
